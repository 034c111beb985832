package clienttest_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// plenty is a cap that nothing here reaches.
	plenty = 100_000_000
	// endless is a script that only a cap ends.
	endless = 1_000_000
	// agents is how many sub-agents a client starts at once.
	agents = 3
)

// TestClients runs each client to the end of a long conversation, and then under caps that are many times its largest
// call.
func TestClients(t *testing.T) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u, proxy := serveVendors(t, script{turns: 40, agents: agents})
			r := c.under(t, u, plenty)
			r.counted(t, u, 0)
			assert.Zero(t, r.status, tail(r.stderr))
			assert.Contains(t, r.stdout, answerCanary)
			assert.GreaterOrEqual(t, len(u.calls()), 41)
			if c.agents {
				assert.GreaterOrEqual(t, len(u.calls()), 41+agents*3, "with those of sub-agents")
			} else {
				assert.Contains(t, r.stdout, fmt.Sprintf("made %d\n", r.report.ModelCalls))
			}
			logged, asked := proxy.log()
			assert.NotContains(t, logged, keyCanary, "the log of a proxy")
			t.Logf("%d calls, %d tokens, also %q of %q", len(u.calls()), billed(u.calls()), u.other, asked)
			for _, times := range []int64{10, 15, 20} {
				limit := capOf(u.calls(), times)
				if limit == 0 {
					continue
				}
				t.Run(fmt.Sprintf("a cap of %d", limit), func(t *testing.T) {
					u, _ := serveVendors(t, script{turns: endless, agents: agents})
					r := c.under(t, u, limit)
					r.counted(t, u, 0)
					r.capped(t, u, limit)
				})
			}
		})
	}
}

// capOf is a cap that is so many times as large as the largest call before it is reached, 0 if there are too few.
func capOf(calls []served, times int64) int64 {
	var sum, largest int64
	for _, call := range calls {
		sum, largest = sum+call.billed(), max(largest, call.billed())
		if sum >= times*largest {
			return sum
		}
	}
	return 0
}

func billed(calls []served) (sum int64) {
	for _, call := range calls {
		sum += call.billed()
	}
	return sum
}

// counted checks that the meter has seen all calls, those that were refused among them, that it counted what was
// billed, and that it kept nothing of them.
func (r *run) counted(t *testing.T, u *upstream, refused int) {
	t.Helper()
	calls := u.calls()
	if r.report.Reason == "" || !r.agents { // the calls of others that its end cuts off may be charged in full
		assert.Equal(t, billed(calls), r.used(), "what is spent is what is billed")
	}
	assert.GreaterOrEqual(t, r.used(), billed(calls), "what is billed is spent")
	if r.report.Reason == "" {
		assert.Equal(t, len(calls)+refused, r.report.ModelCalls, "calls are seen that were made: %s", tail(r.stderr))
	}
	assert.Positive(t, u.keys, "no call had the key and the prompt")
	r.kept(t)
}

// kept checks that neither the key nor the prompt is in what watchdog wrote, or can print.
func (r *run) kept(t *testing.T) {
	t.Helper()
	why, err := exec.Command(program, "why", "--store", r.store(), "agent").CombinedOutput()
	require.NoError(t, err, string(why))
	texts := map[string]string{"why": string(why), "standard error": r.stderr}
	for _, folder := range []string{"watchdog.db*", "artifacts"} {
		paths, err := filepath.Glob(filepath.Join(r.folder, folder))
		require.NoError(t, err)
		for _, path := range paths {
			require.NoError(t, filepath.WalkDir(path, func(path string, file fs.DirEntry, err error) error {
				if err == nil && file.Type().IsRegular() {
					var text []byte
					text, err = os.ReadFile(path)
					texts[path] = string(text)
				}
				return err
			}))
		}
	}
	assert.Greater(t, len(texts), 2, "there is a store")
	for name, text := range texts {
		for _, canary := range []string{keyCanary, promptCanary} {
			assert.NotContains(t, text, canary, name)
		}
	}
}

// capped checks that the cap held, that it was used, and that it ended the client.
func (r *run) capped(t *testing.T, u *upstream, limit int64) {
	t.Helper()
	var useful, largest int64
	calls := u.calls()
	for _, call := range calls {
		largest = max(largest, call.billed())
		if !call.cut {
			useful += call.billed()
		}
	}
	require.NotEmpty(t, calls, tail(r.stderr))
	last := calls[len(calls)-1]
	assert.LessOrEqual(t, r.used(), limit, "the cap is overstepped")
	assert.GreaterOrEqual(t, limit, 10*largest, "the cap is too small to say anything")
	next := last.billed() + 300 + 2048 // its input, and the floor of its output
	assert.True(t, 100*useful >= 85*limit || limit-useful <= next, "%d of %d were used, and the next call needed %d",
		useful, limit, next)
	assert.Equal(t, 124, r.status, tail(r.stderr))
	assert.Less(t, r.ended.Sub(last.ended), 3*time.Second, "from the last answer to the end")
	t.Logf("%d of %d used by %d calls, %d seen, ended after %v: %s", useful, limit, len(calls), r.report.ModelCalls,
		r.ended.Sub(last.ended).Round(time.Millisecond), r.report.Reason)
}

// TestRefused has a refusal that does not end the run: the client is to end by itself, at once, and to say why.
func TestRefused(t *testing.T) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := serve(t, script{turns: endless})
			var base []string
			if strings.HasPrefix(c.name, "AI SDK") { // its bases end in the version
				base = []string{"ANTHROPIC_BASE_URL=" + u.URL + "/v1"}
			}
			r := c.under(t, u, plenty, append(base, "WATCHDOG_SPEND_REQUESTS=3", "WATCHDOG_LADDERS_REQUESTS=wait")...)
			r.counted(t, u, 1)
			calls := u.calls()
			require.Len(t, calls, 3, tail(r.stderr))
			took := r.ended.Sub(calls[2].ended).Round(10 * time.Millisecond)
			said, _, _ := strings.Cut(r.stdout+r.stderr, "watchdog: 1 of the command's calls were refused")
			assert.Equal(t, 1, r.status, "the client's own status")
			assert.Less(t, took, 5*time.Second)
			assert.Contains(t, said, "requests: 3 of 3 used", "what the client says has no reason")
			t.Logf("%d refused, ended after %v: %s", r.report.ModelCalls-len(calls), took, lastLines(said))
		})
	}
}

// lastLines has what a client says at its end.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "\n")
}

// TestOutage has an API that fails for a while, and bills nothing for it.
func TestOutage(t *testing.T) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u, _ := serveVendors(t, script{turns: 3, fail: func(n int) *failure {
				switch n {
				case 2:
					return &failure{status: 503}
				case 4:
					return &failure{status: 429, header: map[string]string{"Retry-After": "1"}}
				}
				return nil
			}})
			r := c.under(t, u, plenty)
			r.counted(t, u, 0)
			assert.Zero(t, r.status, tail(r.stderr))
			assert.Contains(t, r.stdout, answerCanary)
			assert.GreaterOrEqual(t, len(u.calls()), 6)
		})
	}
}
