package main_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/session"
)

// TestMeterStored has the run and what it spent in a store.
func TestMeterStored(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s testStore) {
		t.Run("of which why, sessions and the page tell", func(t *testing.T) {
			for id, flags := range map[string]string{"loud": "--no-output 5m", "calm": ""} {
				f, m := newFixture(t), serveModels(t)
				goOn := f.path("go")
				cmd := f.at(m.URL, f.stored(s, "--meter --tokens 3000 --id "+id+" "+flags,
					f.child("ask:chat+quiet", "say:ready", "await:"+goOn, "askAll:chat", "stay")...))
				cmd.Env = append(cmd.Env, "WATCHDOG_STALLED_THRESHOLD_MS=1000") // its row is at most a tenth of it behind
				p := start(t, cmd)
				eventually(t, "the row has it", func() bool {
					var state session.State
					return json.Unmarshal(s.row(t, id).State, &state) == nil && len(state.Spent) == 1 && state.Spent[0].Used == tokensEach
				})
				assert.Contains(t, s.swept(t).stdout, "0 cancelled", "a run that makes no calls is swept")
				url, end := serve(t, "--store="+s.url, "--page")
				_, page := get(t, url)
				end()
				assert.Contains(t, page, "tokens")
				require.NoError(t, stepFuncs["touch"](goOn))
				o := p.end().must(t, 124)
				assert.Regexp(t, "^watchdog: a call did not fit in its limit: tokens: [^:]*: ended by SIGINT; see: watchdog why "+id+"\n$", o.stderr)
				row, reason, stored := s.end(t, id)
				const code = "watchdog_tokens_exceeded"
				assert.Equal(t, []string{"cancelled", code, code}, []string{string(row), reason, stored})
				why := s.program(t, "why", id).stdout
				assert.Contains(t, why, code)
				assert.Regexp(t, `tokens: [\d,]+ of 3,000 (used|left)`, why)
				assert.LessOrEqual(t, m.served.Load()*tokensEach, int64(3000))
				// A run that was stopped so starts nothing before its resume.
				o = f.ended(f.at(m.URL, f.stored(s, "--meter --tokens 3000 --id "+id, f.child("touch:"+f.path("started"))...))).must(t, 124)
				assert.Regexp(t, "^watchdog: a call did not fit in its limit: .*, before the command started\n$", o.stderr)
				assert.False(t, f.exists("started"))
				require.Zero(t, s.program(t, "resume", id).status)
				o = f.ended(f.at(m.URL, f.stored(s, "--meter --tokens 3000 --id "+id, f.child("ask:chat")...))).must(t, 0)
				assert.Contains(t, o.stdout, "200 ")
			}
		})
		t.Run("whose row has all that was spent when it is complete", func(t *testing.T) {
			for _, flags := range []string{"", " --no-output 5m"} {
				f, m := newFixture(t), serveModels(t)
				id := "complete" + strings.Trim(flags, "- 5m")
				f.ended(f.at(m.URL, f.stored(s, "--meter --tokens 3000 --id "+id+flags, f.child("ask:chat", "ask:chat")...))).must(t, 0)
				row, reason, _ := s.end(t, id)
				assert.Equal(t, []string{"finished", "complete"}, []string{string(row), reason})
				assert.Contains(t, s.program(t, "why", id).stdout, "tokens: 100 of 3,000 used")
			}
		})
		t.Run("and what it had under way at its end is settled before that", func(t *testing.T) {
			f, m := newFixture(t), serveModels(t, waiting)
			p := start(t, f.at(m.URL, f.stored(s, "--meter --tokens 3000 --keep-background --id settled",
				f.child("leave:asking", "say:ready", "await:"+f.path("go"))...)))
			<-m.waiting
			require.NoError(t, stepFuncs["touch"](f.path("go")))
			p.end().must(t, 0)
			for _, left := range escape.WithToken(f.token) {
				require.NoError(t, syscall.Kill(left.PID, syscall.SIGKILL))
			}
			eventually(t, "it ends", func() bool { return len(escape.WithToken(f.token)) == 0 })
			var state session.State
			require.NoError(t, json.Unmarshal(s.row(t, "settled").State, &state))
			assert.LessOrEqual(t, state.Spent[0].Used, int64(1244), "it is cut off")
			assert.Zero(t, state.Spent[0].Admitted)
		})
		t.Run("and holds after a kill, which ends the command, too", func(t *testing.T) {
			f, m := newFixture(t), serveModels(t)
			const limit = 20_000
			stored := func(steps ...string) *exec.Cmd {
				cmd := f.at(m.URL, f.stored(s, fmt.Sprintf("--meter --tokens %d --id killed", limit), f.child(steps...)...))
				cmd.Env = append(cmd.Env, "WATCHDOG_KEEPER_PROMISE_MS=2000") // a look may take as long on a busy machine
				return cmd
			}
			p := start(t, stored(append(slices.Repeat([]string{"ask:chat+quiet"}, 100), "say:ready", "stay")...))
			p.signal(syscall.SIGKILL)
			_ = p.cmd.Wait() // it was killed
			eventually(t, "the command ends", func() bool { return len(escape.WithToken(f.token)) == 0 })
			before := m.served.Load()
			assert.EqualValues(t, 100, before)
			f.ended(stored(append(slices.Repeat([]string{"ask:chat+quiet"}, 400), "stay")...)).must(t, 124)
			assert.LessOrEqual(t, m.served.Load()*tokensEach, int64(limit), "the first attempt is forgotten")
			assert.Greater(t, m.served.Load(), before, "the second attempt could do nothing")
			assert.Equal(t, 2, s.row(t, "killed").Attempt)
		})
	})
}

// TestMeterEnds checks that the proxy ends with the command, however that ends.
func TestMeterEnds(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run("by "+sig.String()+" in the middle of a stream", func(t *testing.T) {
			t.Parallel()
			f, m := newFixture(t), serveModels(t, waiting)
			p := start(t, f.metered(m, "--tokens 5000", "say:ready", "ask:anthropic+stream", "stay"))
			<-m.waiting
			p.signal(sig)
			o := p.end()
			if sig != syscall.SIGKILL {
				o.must(t, 128+int(sig))
			}
			eventually(t, "the command ends", func() bool { return len(escape.WithToken(f.token)) == 0 })
		})
	}
}

// TestMeterSecrets searches everything that is written and said for what a command sends and gets, and for the path of
// the proxy.
func TestMeterSecrets(t *testing.T) {
	t.Parallel()
	s := sqliteStore(t)
	f, m := newFixture(t), serveModels(t)
	settings := file(t, "watchdog.yaml", "runtime_controls:\n  session_wall_clock_seconds: 600\n")
	var said strings.Builder
	secret := ""
	for id, c := range map[string][]string{
		"whole":   {"env:OPENAI_BASE_URL", "ask:anthropic", "ask:chat+stream", "ask:gemini", "ask:open", "exit:1"},
		"refused": {"env:OPENAI_BASE_URL", "askAll:responses", "stay"},
		"aborted": {"env:OPENAI_BASE_URL", "breakOff:anthropic+stream", "exit:0"},
	} {
		for _, flags := range []string{"", "--json", "--no-output 5m --config " + settings} {
			name := id + fmt.Sprint(len(flags))
			o := finish(t, f.at(m.URL, f.stored(s, "--meter --tokens 9000 --artifacts state --step "+name+" --id "+name+" "+flags,
				f.child(c...)...)))
			said.WriteString(o.stderr)
			for _, words := range [][]string{{"why", name}, {"why", name, "--json"}, {"tail", name, "--from-start"}} {
				told := s.program(t, words...)
				said.WriteString(told.stdout + told.stderr)
			}
			secret += regexp.MustCompile(`[A-Z2-7]{26}`).FindString(o.stdout) + " "
		}
	}
	m.Close()
	o := finish(t, f.at(m.URL, f.stored(s, "--meter --tokens 9000 --id down", f.child("ask:chat")...)))
	cmd := f.metered(m, "--tokens 9000", "ask:chat")
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL=https://user:"+keyCanary+"@host")
	wrong := finish(t, cmd).must(t, 125)
	assert.Contains(t, wrong.stderr, "ANTHROPIC_BASE_URL is not the base of a model API")
	url, end := serve(t, "--store="+s.url, "--page")
	_, page := get(t, url)
	end()
	all := said.String() + o.stderr + wrong.stderr + s.program(t, "sessions", "--json").stdout + page
	for _, dir := range []string{f.dir, filepath.Dir(strings.TrimPrefix(s.url, "sqlite:"))} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			all += string(text)
			return err
		}))
	}
	assert.Contains(t, all, "watchdog_tokens_exceeded")
	require.Len(t, strings.Fields(secret), 9)
	for _, canary := range append(strings.Fields(secret), keyCanary, promptCanary, answerCanary) {
		assert.NotContains(t, all, canary)
	}
}
