"""The policy `bid-price`: an energy price, recomputed at each step, decides which jobs may start."""
