package clients_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
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
			for _, c := range capsOf(u.calls()) {
				t.Run(fmt.Sprintf("a cap of %d", c.tokens), func(t *testing.T) {
					u, _ := serveVendors(t, script{turns: endless, agents: agents, fills: c.fills})
					r := r.under(t, u, c.tokens)
					r.counted(t, u, 0)
					r.capped(t, u, c)
				})
			}
		})
	}
}

// TestDocument protects the versions and the least caps in the docs.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/meter.md")
	require.NoError(t, err)
	var pinned struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(must(os.ReadFile("package.json")), &pinned))
	packages := map[string]string{
		"Claude Code": "@anthropic-ai/claude-code", "Codex": "@openai/codex", "Gemini CLI": "@google/gemini-cli",
		"Anthropic SDK": "@anthropic-ai/sdk", "OpenAI SDK": "openai", "Google Gen AI SDK": "@google/genai", "AI SDK": "ai",
	}
	for _, c := range all {
		name, _, _ := strings.Cut(c.name, ",")
		require.Contains(t, packages, name)
		row := fmt.Sprintf("\n| %s | %s | %d,000 |", name, pinned.Dependencies[packages[name]], c.least/1000)
		assert.Contains(t, string(text), row)
	}
}

// TestLeast runs each client under the least cap that the docs name for it.
func TestLeast(t *testing.T) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u, _ := serveVendors(t, script{turns: 1})
			r := c.under(t, u, c.least)
			r.counted(t, u, 0)
			assert.Zero(t, r.status, tail(r.stderr))
			assert.Contains(t, r.stdout, answerCanary)
			assert.GreaterOrEqual(t, len(u.calls()), 2)
		})
	}
}

// A limit is a cap that is reached.
type limit struct {
	tokens int64
	// fills is that of the script: the last answer is cut off at what is left, if it is not 0.
	fills int64
}

// capsOf returns caps that are many times as large as the largest of the calls before they are reached. The last one
// has room for a part of an answer, too.
func capsOf(calls []served) (all []limit) {
	var sum, largest int64
	times := []int64{10, 15, 20}
	for i, call := range calls {
		sum, largest = sum+call.billed(), max(largest, call.billed())
		if len(all) == len(times) || sum < times[len(all)]*largest {
			continue
		}
		c := limit{tokens: sum}
		if len(all) == len(times)-1 && i+1 < len(calls) {
			next := calls[i+1].input // a client does not make exactly the same calls again
			c = limit{tokens: sum + next + next/2, fills: min(next*3/4, 16_000)}
		}
		all = append(all, c)
	}
	return all
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
	assert.NotContains(t, r.stderr, "is not known", "a client's ordinary requests are known")
	r.kept(t)
}

// kept checks that neither the key nor the prompt is in what watchdog wrote, or can print.
func (r *run) kept(t *testing.T) {
	t.Helper()
	texts := map[string]string{"why": r.why(t), "why as JSON": r.why(t, "--json"), "page": r.page(t)}
	texts["standard error"] = r.stderr
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
	assert.Greater(t, len(texts), 4, "there is a store")
	for name, text := range texts {
		for _, canary := range []string{keyCanary, promptCanary} {
			assert.NotContains(t, text, canary, name)
		}
	}
}

// capped checks that the cap held, that it was used, and that it ended the client at once.
func (r *run) capped(t *testing.T, u *upstream, c limit) {
	t.Helper()
	var useful, largest int64
	cut := 0
	calls := u.calls()
	for _, call := range calls {
		largest = max(largest, call.billed())
		if call.cut {
			cut++
		} else {
			useful += call.billed()
		}
	}
	require.NotEmpty(t, calls, tail(r.stderr))
	last := calls[len(calls)-1]
	assert.LessOrEqual(t, r.used(), c.tokens, "the cap is overstepped")
	assert.GreaterOrEqual(t, c.tokens, 10*largest, "the cap is too small to say anything")
	next := last.billed() + 300 + 2048 // its input, and the floor of its output
	assert.True(t, 100*useful >= 85*c.tokens || c.tokens-useful <= next, "%d of %d were used, and the next call needed %d",
		useful, c.tokens, next)
	// Sub-agents make other calls each time, so that there can be too little left for a part of an answer.
	if cut > 0 || c.fills > 0 && !r.agents {
		assert.Equal(t, 1, cut, "answers that were cut off at what was left")
		assert.True(t, last.cut, "a call after one that was cut off")
	}
	assert.Equal(t, 124, r.status, tail(r.stderr))
	stopped := r.stopped(t)
	assert.Less(t, r.ended.Sub(stopped), soon(3*time.Second), "from the refusal to the end")
	t.Logf("%d of %d used by %d calls, %d seen, %d cut, stopped %v after the last answer, ended after %v: %s", useful,
		c.tokens, len(calls), r.report.ModelCalls, cut, stopped.Sub(last.ended).Round(time.Millisecond),
		r.ended.Sub(stopped).Round(time.Millisecond), r.report.Reason)
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
			assert.Less(t, took, soon(5*time.Second))
			assert.Contains(t, said, "requests: 0 of 3 left", "what the client says has no reason")
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
