package sweep

// WithDefaults returns the config with its defaults filled in.
func (c Config) WithDefaults() Config { return c.withDefaults() }

// Remembered returns how many sessions the sweeper remembers between passes.
func (s *Sweeper) Remembered() int { return len(s.pending) }
