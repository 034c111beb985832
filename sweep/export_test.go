package sweep

// Merged is the config with its defaults.
func (c Config) Merged() Config { return c.merged() }

// Remembered is how many sessions the sweeper remembers something of, between passes.
func (s *Sweeper) Remembered() int { return len(s.pending) }
