package watchdoghttp

// Histories returns of how many runs there is a history.
func Histories() (n int) {
	histories.Range(func(any, any) bool { n++; return true })
	return n
}
