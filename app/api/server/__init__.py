"""The layer between uvicorn and the application: HTTP connections, problem details, facts of a request.

`http_protocol` is uvicorn's HTTP/1.1 protocol with limits on request heads; `caller_transport` ends connections of
callers that still send, or do not read; `uvicorn_server` runs one or several server processes. `request_head` reads
the headers of a request, and `request_facts` holds what is learned of it. `request_parameters` and `content_types`
check queries and content types. `problem_responses` turns any error of the product into an RFC 9457 answer;
`body_rejection` carries such an error through the framework's own reading of a body, and `validation_messages` words
the errors of pydantic.
"""
