"""The cost of balancers, the gain from more nodes, and ways to a backend.

- `compute`: shares of the nodes, connections per request, prices
- `figure`: the rate over the number of nodes, and connections per request
- `page`: the pages of a balancer study and of ways to a backend
"""
