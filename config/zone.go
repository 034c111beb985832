package config

import "time"

// zone is the kind of the name of a time zone.
type zone struct{ label }

func (z zone) set(c *Config, v value) *invalidValue {
	if invalid := z.label.set(c, v); invalid != nil {
		return invalid
	}
	if _, err := time.LoadLocation(v.text); err != nil || v.text == "Local" {
		return v.invalid("is not a time zone that this machine knows")
	}
	return nil
}
