package release

// WithoutOwn exports withoutOwn for the tests.
func (m *Modules) WithoutOwn(sums []byte) []byte { return m.withoutOwn(sums) }
