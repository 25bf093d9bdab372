"""The layer between uvicorn and the application: HTTP connections, problem details, facts of a request.

`http_protocol` is uvicorn's HTTP/1.1 protocol with limits on request heads; it ends connections of callers that still
send, or do not read. `uvicorn_server` runs one or several server processes. `request_facts` reads the headers of a
request, and holds what is learned of it. `request_parameters` checks queries and content types. `problem_responses`
turns any error of the product into an RFC 9457 answer.
"""
