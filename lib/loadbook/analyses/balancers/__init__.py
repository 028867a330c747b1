"""The cost of balancers, the gain from more nodes, and ways to a backend.

- `compute`: shares of the nodes, connections per request, prices
- `figure`: the scaling figure
- `connections`: the figure of connections per request
- `page`: the page of a balancer study
- `backends`: the page of ways to a backend
"""
