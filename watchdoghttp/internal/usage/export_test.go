package usage

// HistorySize returns how many bytes a history counts for what it remembers.
func HistorySize(h *History) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size
}
