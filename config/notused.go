package config

// notUsed is the kind of a setting that is read, so that a file that has it is accepted, and that nothing uses.
type notUsed struct{ flag }

func (n notUsed) show(c *Config) string {
	if *n.field(c) {
		return "not used"
	}
	return n.flag.show(c)
}
