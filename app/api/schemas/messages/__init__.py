"""Messages of change data capture as the contract describes them, one module per format.

The models only describe: `app.formats` reads the messages, and checks more strictly.
"""
