"""The cost of load balancers, the gain from more nodes, and kinds of connections to a backend.

- `compute`: each node's share of the requests, connections per request
- `figure`: plots of the rate over the number of nodes, and of connections per request
- `page`: the pages of balancer studies and of studies that compare kinds of connections to a backend
"""
