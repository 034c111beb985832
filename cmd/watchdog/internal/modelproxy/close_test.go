package modelproxy_test

import (
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
)

// TestClose checks that a proxy that is closed has settled its calls: the run can be closed then.
func TestClose(t *testing.T) {
	f := start(t, watchdog.Spend{Tokens: 1_000_000}, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(stream(1)[0]))
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	})
	began := func() {
		resp, err := f.client.Post(f.proxy.URL(modelproxy.Anthropic)+"/v1/messages", "",
			strings.NewReader(calls[modelproxy.Anthropic].body))
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		_, err = resp.Body.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	for range 20 {
		began()
	}
	require.NoError(t, f.proxy.Close())
	require.NoError(t, f.wd.Close())
	assert.Zero(t, f.wd.Usage()[0].Admitted)
	most := len(calls[modelproxy.Anthropic].body) + 1024 + 16 + 100
	assert.EqualValues(t, 20*most, f.used(0), "they count with the most, because nobody knows what they were billed")
	address, _, _ := strings.Cut(strings.TrimPrefix(f.proxy.URL(modelproxy.Anthropic), "http://"), "/")
	_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}
