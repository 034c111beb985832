package watchdogmcp

// Followed returns how many calls the guard takes progress for.
func (g *Guard) Followed() (calls int) {
	g.tokens.mu.RLock()
	defer g.tokens.mu.RUnlock()
	for _, layers := range g.tokens.calls {
		calls += len(layers)
	}
	return calls
}
