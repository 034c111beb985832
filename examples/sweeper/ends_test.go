package main_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHowItEnds expects the program to say how soon it cancels, how it is ended, and that it runs while it waits for a
// pass.
func TestHowItEnds(t *testing.T) {
	p := start(t, "-http", "127.0.0.1:0", "-seed", "20", "-stalled", "3")
	p.until("to the cancel: 10m10s; for the last of 10,000 sessions: 43m28s\n")
	p.until("sweeping SQLite every 2s; press Ctrl-C to end")
	p.until("3 cancelled")
	address := regexp.MustCompile(`health is at (\S+)`).FindStringSubmatch(p.text())
	require.NotNil(t, address)
	require.Eventually(t, func() bool { return !healthAt(t, address[1]).Passing }, time.Minute, 10*time.Millisecond)
	require.True(t, healthAt(t, address[1]).Running)
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, p.cmd.Wait(), p.stderr.String())
	require.Equal(t, interrupted, p.stderr.String())
}

// healthAt returns the health page, whatever its status.
func healthAt(t *testing.T, address string) (page struct{ Running, Passing bool }) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&page))
	return page
}
