"""Learning which compensation policy acts when: training on executions of scenarios."""
