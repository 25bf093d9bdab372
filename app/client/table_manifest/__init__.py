"""Tables as a YAML file declares them: reading and writing the file, and what has to be done to make it true.

Pure: texts and what the gateway says are arguments, plans and texts come back.
"""
