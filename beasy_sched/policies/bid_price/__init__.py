"""The policy `bid-price`: a price of energy, solved anew at each step, decides which jobs may start."""
