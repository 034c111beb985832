package storeflow

import (
	"encoding/json"
	"fmt"

	"github.com/seed62658d38/watchdog/session"
)

// Behind returns the column behind of a lease, NULL if it names no rows.
func Behind(l session.Lease) *string {
	if len(l.Behind) == 0 {
		return nil
	}
	text, _ := json.Marshal(l.Behind) // cannot fail: it has strings and numbers only
	behind := string(text)
	return &behind
}

// ReadBehind reads the column behind of a lease, where NULL is the null of JSON.
func ReadBehind(l *session.Lease, text string) error {
	if err := json.Unmarshal([]byte(text), &l.Behind); err != nil {
		return fmt.Errorf("lease %s: column behind: %w", l.ID, err)
	}
	return nil
}
