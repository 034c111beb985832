package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMeterUnsent has calls that never reach their API, because a proxy refuses: each may use more than 1,000 tokens, so
// that two of them would be the last. They cost nothing, and the client and the last line say why.
func TestMeterUnsent(t *testing.T) {
	t.Parallel()
	steps := []string{"ask:anthropic", "ask:chat", "ask:responses", "ask:gemini", "exit:4"}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	host := proxy.Listener.Addr().String()
	cause := "no answer from api.example: the proxy " + host + " refused the connection: 407 Proxy Authentication Required"
	last := "4 of the command's calls failed, the first because: " + cause
	f := newFixture(t)
	cmd := func(flags string, steps ...string) *exec.Cmd {
		cmd := f.at("https://api.example", f.cmd("--meter --tokens 1500 "+flags, f.child(steps...)...))
		cmd.Env = append(cmd.Env, "HTTPS_PROXY=http://user:"+keyCanary+"@"+host)
		return cmd
	}
	t.Run("and the command ends by itself", func(t *testing.T) {
		o := f.ended(cmd("", steps...)).must(t, 4)
		assert.Equal(t, "watchdog: "+last+"\n", o.stderr)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		require.Len(t, lines, 4)
		for _, line := range lines {
			assert.Regexp(t, `^502  "{.*}\\n"$`, line, "with no word about another try")
			assert.Contains(t, line, cause)
		}
		assert.NotContains(t, o.stdout+o.stderr, keyCanary)
	})
	t.Run("and nothing is used", func(t *testing.T) {
		o := f.ended(cmd("--json", steps...)).must(t, 4)
		said, report, _ := strings.Cut(o.stderr, "\n")
		assert.Equal(t, "watchdog: "+last, said)
		var got struct {
			Spent []struct{ Used, Admitted int64 }
		}
		require.NoError(t, json.Unmarshal([]byte(report), &got), o.stderr)
		require.Len(t, got.Spent, 1)
		assert.Zero(t, got.Spent[0])
	})
	t.Run("and the command has to be ended", func(t *testing.T) {
		o := f.ended(cmd("--no-output 3s", append(steps[:4:4], "stay")...)).must(t, 124)
		assert.Regexp(t, "^watchdog: .*: ended by SIGINT; "+regexp.QuoteMeta(last)+"\n$", o.stderr)
	})
}
