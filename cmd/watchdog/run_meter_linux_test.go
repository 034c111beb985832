package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/locked"
	"github.com/seed62658d38/watchdog/session"
)

func TestMeterClients(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		"anthropic", "anthropic+stream", "anthropic+stream+gzip", "chat", "chat+stream", "chat+gzip", "responses",
		"responses+stream", "gemini", "gemini+stream",
	} {
		withModels(t, call+" gets what the model says, and it is counted", func(t *testing.T, f *fixture, m *models) {
			o := f.ended(f.metered(m, "--tokens 5000 --json", "ask:"+call, "ask:"+call, "exit:3")).must(t, 3)
			direct := f.at(m.URL, exec.Command(self(t), f.token, "ask:"+call, "ask:"+call))
			direct.Env = append(os.Environ(), direct.Env...)
			require.Equal(t, finish(t, direct).stdout, o.stdout, "the answers are changed")
			require.Contains(t, o.stdout, "200 ")
			var report struct {
				ModelCalls int64            `json:"model_calls"`
				Spent      []watchdog.Usage `json:"spent"`
			}
			require.NoError(t, json.Unmarshal([]byte(o.stderr), &report), o.stderr)
			require.EqualValues(t, 2, report.ModelCalls)
			require.Len(t, report.Spent, 1)
			require.EqualValues(t, 2*tokensEach, report.Spent[0].Used)
			require.Zero(t, report.Spent[0].Admitted)
		})
	}
	inFixture(t, "of an API that speaks HTTP/2", func(t *testing.T, f *fixture) {
		m := serveModels(t, func(m *models) { m.EnableHTTP2 = true; m.StartTLS() })
		cert := f.path("cert.pem")
		require.NoError(t, os.WriteFile(cert, pemOf(m.Certificate()), 0o600))
		cmd := f.metered(m, "--tokens 5000", "ask:anthropic+stream")
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+cert)
		require.Contains(t, f.ended(cmd).must(t, 0).stdout, answerCanary)
		require.EqualValues(t, 2, m.proto.Load())
	})
	withModels(t, "whose certificates cannot be read, which is said", func(t *testing.T, f *fixture, m *models) {
		cmd := f.metered(m, "--tokens 5000", "ask:chat")
		cmd.Env = append(cmd.Env, "NODE_EXTRA_CA_CERTS="+f.path("gone.pem"))
		o := f.ended(cmd).must(t, 0)
		require.Equal(t, `watchdog: certificates are not read, variable "NODE_EXTRA_CA_CERTS", error "open `+f.path("gone.pem")+
			": no such file or directory\"\n", o.stderr)
	})
}

// TestMeterCap has caps that are reached.
func TestMeterCap(t *testing.T) {
	t.Parallel()
	const prices = `{"currency":"EUR","date":"2026-08-01","models":{"m":{"input":1000000,"output":10000000}}}`
	for name, c := range map[string]struct {
		flags []string
		says  string
	}{
		"of tokens": {[]string{"--tokens", "1500"}, `tokens: [\d,]+ of 1,500 left, and this call may need [\d,]+`},
		"of money": {
			[]string{"--cost", "0.003 EUR", "--prices", file(t, "prices.json", prices)},
			`cost: 0\.\d{2,6} EUR of 0\.003 EUR left, and this call may need 0\.\d{2,6} EUR`,
		},
	} {
		for call, refusal := range map[string]string{
			"anthropic": `402 false .*billing_error`, "chat+stream": `400 false .*insufficient_quota`,
			"responses": `400 false .*insufficient_quota`, "gemini": `400 false .*FAILED_PRECONDITION`,
		} {
			withModels(t, name+" refuses a call of "+call+" and ends the command", func(t *testing.T, f *fixture, m *models) {
				line := append(append([]string{"--meter"}, c.flags...), "--")
				// The command gets its SIGINT at once, and waits for its answers all the same.
				steps := append([]string{"ignore:INT"}, append(slices.Repeat([]string{"ask:" + call}, 60), "obey:TERM:0", "stay")...)
				line = append(line[:len(line)-1], "--grace-int", "5s", "--")
				o := f.ended(f.at(m.URL, f.program(append(line, f.child(steps...)...)...))).must(t, 124)
				require.Regexp(t, "^watchdog: a call did not fit in its limit: "+c.says+": ended by SIGTERM\n$", o.stderr)
				served := int(m.served.Load())
				require.Positive(t, served)
				lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
				require.Greater(t, len(lines), served)
				for _, line := range lines[:served] {
					require.Regexp(t, "^200 ", line)
				}
				require.Regexp(t, "^"+refusal, lines[served])
				require.NotContains(t, lines[served], "Canary")
			})
		}
	}
	parallel(t, "ends a command that has ended by itself meanwhile with its own status, too", func(t *testing.T) {
		for _, status := range []string{"0", "7"} {
			f, m := newFixture(t), serveModels(t)
			o := f.ended(f.metered(m, "--tokens 100", "ignore:INT", "ignore:TERM", "ask:chat", "exit:"+status)).must(t, 124)
			require.Regexp(t, `^watchdog: a call did not fit in its limit: tokens: 100 of 100 left, and this call may need [\d,]+: `+
				`ended (with status `+status+`|by SIGINT)\n$`, o.stderr)
			require.Zero(t, m.served.Load())
		}
	})
	withModels(t, "takes SIGKILL where it has to", func(t *testing.T, f *fixture, m *models) {
		o := f.ended(f.metered(m, "--tokens 100 --grace-int 0s --grace-term 0s", "ignore:INT", "ignore:TERM", "ask:chat", "stay"))
		require.Contains(t, o.must(t, 137).stderr, ": ended by SIGKILL\n")
	})
	withModels(t, "asks to wrap up first where there is a reserve, and lets a smaller call be made", func(t *testing.T, f *fixture, m *models) {
		settings := file(t, "watchdog.yaml", "runtime_controls:\n  spend: {turns: 5, tokens: 1310, reserve: {tokens: 1300}}\n")
		steps := []string{"ask:chat", "ask:chat", "exit:6"}
		o := f.ended(f.metered(m, "--config "+settings, steps...)).must(t, 6)
		require.Regexp(t, "^400 false .*\n200  ", o.stdout)
		require.Regexp(t, "^watchdog: 1 of the command's calls were refused, the first because: call of run [0-9a-z-]+ refused: tokens: "+
			"1,310 of 1,310 left, and this call may need [0-9,]+, more than there is before wrapping up", o.stderr)
		o = f.ended(f.metered(m, "--json --config "+settings, "ask:chat", "ask:chat")).must(t, 0)
		require.NotContains(t, o.stderr, "turns", "a proxy sees none")
	})
	withModels(t, "counts what names content elsewhere only with --model-max", func(t *testing.T, f *fixture, m *models) {
		o := f.ended(f.metered(m, "--tokens 5000", "ask:stored", "exit:1")).must(t, 1)
		require.Contains(t, o.stdout, "400 false ")
		require.Equal(t, "watchdog: 1 of the command's calls were refused, the first because: what the call can use is unbounded: "+
			"its input is by reference (previous_response_id); declare the maximum of a call of model \"m\", "+
			"with --model-max 'MODEL=INPUT:OUTPUT'\n", o.stderr)
		o = f.ended(f.metered(m, "--tokens 5000 --model-max *=1000:100", "ask:stored+stream")).must(t, 0)
		require.Contains(t, o.stdout, "200 ")
	})
	withModels(t, "writes a maximum of output where a call has none", func(t *testing.T, f *fixture, m *models) {
		o := f.ended(f.metered(m, "--tokens 5000", "ask:open")).must(t, 0)
		require.Contains(t, o.stdout, "200 ")
		require.Empty(t, o.stderr)
		o = f.ended(f.metered(m, "--tokens 5000 --no-shrink", "ask:open", "exit:1")).must(t, 1)
		require.Contains(t, o.stderr, "it has no maximum of output; declare the maximum of a call of model \"m\", "+
			"with --model-max 'MODEL=INPUT:OUTPUT'\n")
	})
	withModels(t, "of money says which model has no price", func(t *testing.T, f *fixture, m *models) {
		other := file(t, "prices.json", strings.Replace(prices, `"m"`, `"n"`, 1))
		line := []string{"--meter", "--cost", "1 EUR", "--prices", other, "--"}
		o := f.ended(f.at(m.URL, f.program(append(line, f.child("ask:chat", "ask:chat")...)...))).must(t, 0)
		require.Equal(t, "watchdog: model has no price, model \"m\", of \"model\"\n", o.stderr)
	})
}

// TestMeterTogether has many calls at once, whose sum must not exceed the cap.
func TestMeterTogether(t *testing.T) {
	t.Parallel()
	const limit = 60_000
	check := func(t *testing.T, m *models, o outcome) {
		t.Helper()
		o.must(t, 124)
		require.LessOrEqual(t, m.served.Load()*tokensEach, int64(limit), "the cap was overstepped")
		require.Greater(t, m.served.Load()*tokensEach, int64(limit/4), "it was not used")
	}
	flags := fmt.Sprintf("--tokens %d", limit)
	withModels(t, "in memory", func(t *testing.T, f *fixture, m *models) {
		check(t, m, f.ended(f.metered(m, flags, "askAll:anthropic+stream", "stay")))
	})
	eachStore(t, func(t *testing.T, s testStore) {
		f, m := newFixture(t), serveModels(t)
		check(t, m, f.ended(f.at(m.URL, f.stored(s, "--meter --id job "+flags, f.child("askAll:anthropic+stream", "stay")...))))
	})
}

// TestMeterUnused has commands that make no call through their meter.
func TestMeterUnused(t *testing.T) {
	t.Parallel()
	const says = "watchdog: no call of a model came through the meter, and so nothing was limited: does the command heed " +
		"ANTHROPIC_BASE_URL, OPENAI_BASE_URL, GOOGLE_GEMINI_BASE_URL? For one that wants a flag write: " +
		"sh -c 'codex -c openai_base_url=\"$OPENAI_BASE_URL\"'\n"
	s := sqliteStore(t)
	for name, c := range map[string]struct {
		flags  string
		step   string
		status int
		says   string
	}{
		"is an error of a command that succeeds":         {"", "exit:0", 125, says},
		"is said of a command that fails":                {"", "exit:7", 7, says},
		"is said of a command that a signal ended":       {"", "kill:TERM", 143, says},
		"is no matter for one that was stopped":          {"--wall-clock 200ms", "stay", 124, ""},
		"is no matter where all guards are switched off": {"off", "exit:0", 0, ""},
		"is no matter for one that only lists models":    {"", "ask:models", 0, ""},
	} {
		withModels(t, name, func(t *testing.T, f *fixture, m *models) {
			cmd := f.metered(m, "--tokens 100 "+strings.TrimPrefix(c.flags, "off"), c.step)
			if c.flags == "off" {
				cmd.Env = append(cmd.Env, "WATCHDOG_DISABLED=true")
			}
			o := f.ended(cmd).must(t, c.status)
			if c.says != "" || c.status == 0 {
				require.Equal(t, c.says, o.stderr)
			}
			require.Equal(t, c.says != "", strings.Contains(o.stderr, "no call of a model"))
		})
	}
	t.Run("is in the record", func(t *testing.T) {
		f, m := newFixture(t), serveModels(t)
		o := finish(t, f.at(m.URL, f.stored(s, "--json --meter --tokens 100 --id unused", f.child("exit:0")...))).must(t, 125)
		require.Contains(t, o.stderr, `"model_calls":0`)
		events, err := s.Read(t.Context(), watchdog.AggregateType, "unused")
		require.NoError(t, err)
		require.Contains(t, string(events[len(events)-1].Payload), "no call of a model came through its meter")
	})
}

// TestMeterFlags has command lines that are refused before anything is started.
func TestMeterFlags(t *testing.T) {
	t.Parallel()
	prices := file(t, "prices.json", `{"currency":"USD","date":"2026-08-01","models":{"m":{"input":1000000,"output":10000000}}}`)
	turns := file(t, "turns.yaml", "runtime_controls:\n  spend: {turns: 5}\n")
	for _, c := range []struct{ says, line string }{
		{"--tokens needs --meter: without it, nothing counts the command's calls of models", "--tokens 5"},
		{"--cost needs --meter", "--cost|5 EUR"},
		{"--prices needs --meter", "--prices " + prices},
		{"--model-max needs --meter", "--model-max m=1:1"},
		{"--meter has no limit: write --tokens N or --cost AMOUNT", "--meter"},
		{"--meter has no limit", "--meter --config " + turns},
		{`"0" is no number of tokens`, "--meter --tokens 0"},
		{`"9223372036854775807" is no number of tokens`, "--meter --tokens 9223372036854775807"},
		{`"5" has no currency`, "--meter --cost 5"},
		{"an amount of 0 lets no call be made", "--meter --cost|0 EUR"},
		{"a limit of cost needs --prices FILE", "--meter --cost|5 EUR"},
		{"--prices needs a limit of cost", "--meter --tokens 5 --prices " + prices},
		{"USD", "--meter --cost|5 EUR|--prices|" + prices},
		{"no such file or directory", "--meter --cost|5 EUR|--prices|nosuch"},
		{"write the model and the most tokens in and out of one call", "--meter --tokens 5 --model-max m"},
		{"write the model", "--meter --tokens 5 --model-max m=1"},
		{"write the model", "--meter --tokens 5 --model-max m=0:0"},
		{"write the model", "--meter --tokens 5 --model-max m=-1:5"},
		{"write the model", "--meter --tokens 5 --model-max =1:5"},
		{"write the model", "--meter --tokens 5 --model-max m=1:2:3:4"},
		{`--errors-free: "https://a.example" is no host; write its name alone`, "--meter --tokens 5 --errors-free https://a.example"},
		{`--errors-free: "a.example:443" is no host`, "--meter --tokens 5 --errors-free a.example:443"},
		{`--model-max names "m" twice`, "--meter --tokens 5 --model-max m=1:2 --model-max m=2:3"},
	} {
		f := newFixture(t)
		var line []string
		if words := strings.Split(c.line, "|"); len(words) > 1 {
			line = append(strings.Fields(words[0]), words[1:]...)
		} else {
			line = strings.Fields(c.line)
		}
		o := finish(t, f.program(append(append(line, "--"), f.child("touch:"+f.path("started"))...)...)).must(t, 125)
		require.Contains(t, o.stderr, c.says, c.line)
		require.Empty(t, o.stdout)
		require.False(t, f.exists("started"))
	}
}

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
				assert.Contains(t, s.page(t, ""), "tokens")
				require.NoError(t, stepFuncs["touch"](goOn))
				o := p.end().must(t, 124)
				assert.Regexp(t, "^watchdog: a call did not fit in its limit: tokens: [^:]*: ended by SIGINT; see: watchdog why "+id+"\n$", o.stderr)
				const code = "watchdog_tokens_exceeded"
				assert.Equal(t, []string{"cancelled", code, code}, s.end(t, id))
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
				assert.Equal(t, []string{"finished", "complete", "complete"}, s.end(t, id))
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
			f.kill()
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
		parallel(t, "by "+sig.String()+" in the middle of a stream", func(t *testing.T) {
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
	wrong := finish(t, cmd).must(t, 125).says(t, "ANTHROPIC_BASE_URL is not the base of a model API")
	all := said.String() + o.stderr + wrong.stderr + s.program(t, "sessions", "--json").stdout + s.page(t, "")
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

// A companyProxy records all that it gets, and connects everybody to one address.
type companyProxy struct {
	*testing.T
	listener net.Listener
	to       string
	recorded locked.Buffer
	conns    sync.WaitGroup
}

func startProxy(t *testing.T, to string) *companyProxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &companyProxy{T: t, listener: listener, to: to}
	p.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); p.conns.Wait() })
	return p
}

func (p *companyProxy) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(io.TeeReader(conn, &p.recorded))
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if req.Method != http.MethodConnect {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	up, err := (&net.Dialer{}).DialContext(p.Context(), "tcp", p.to)
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	var back sync.WaitGroup
	back.Go(func() { defer conn.Close(); _, _ = io.Copy(conn, io.TeeReader(up, &p.recorded)) })
	_, _ = io.Copy(up, in)
	_ = up.Close()
	back.Wait()
}

// askLiterally:VARIABLE:CALL calls as clients do that send all to any proxy but what the variable names, also what is on
// this machine.
func askLiterally(about string) error {
	variable, call, _ := strings.Cut(about, ":")
	plainClient.Transport.(*http.Transport).Proxy = func(req *http.Request) (*url.URL, error) {
		direct := strings.FieldsFunc(os.Getenv(variable), func(r rune) bool { return r == ',' || r == ' ' })
		if slices.Contains(direct, req.URL.Hostname()) {
			return nil, nil
		}
		for _, name := range proxyVariables {
			if proxy := os.Getenv(name); proxy != "" {
				return url.Parse(proxy)
			}
		}
		return nil, nil
	}
	return askModel(call)
}

// curl:CALL makes a call with curl, and prints its status.
func curlModel(about string) error {
	req := request(about)
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	words := []string{"-sS", "-o", "/dev/null", "-w", `%{http_code}\n`, "--data-binary", string(body)}
	for name := range req.Header {
		words = append(words, "-H", name+": "+req.Header.Get(name))
	}
	cmd := exec.Command("curl", append(words, req.URL.String())...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

var proxyVariables = []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}

// TestMeterProxy has a company's proxy in the environment, which gets no key and no text of a call: what a command sends
// to its meter does not go there, and what the meter sends to an API does so as without it.
func TestMeterProxy(t *testing.T) {
	t.Parallel()
	for _, variable := range proxyVariables {
		for name, more := range map[string][]string{
			"alone": nil, "with a host in NO_PROXY": {"NO_PROXY=x.example, y.example"}, "with one in no_proxy": {"no_proxy=x.example"},
		} {
			parallel(t, variable+" "+name, func(t *testing.T) {
				f, m := newFixture(t), serveModels(t, func(m *models) { m.EnableHTTP2 = true; m.StartTLS() })
				proxy := startProxy(t, m.Listener.Addr().String())
				steps := []string{"ask:chat", "askLiterally:no_proxy:anthropic", "askLiterally:NO_PROXY:gemini"}
				if _, err := exec.LookPath("curl"); err == nil {
					steps = append(steps, "curl:anthropic")
				}
				cmd := f.metered(m, "--tokens 50000", steps...)
				cert := f.path("cert.pem")
				require.NoError(t, os.WriteFile(cert, pemOf(m.Certificate()), 0o600))
				upstream := m.URL // on this machine, for which the meter asks no proxy
				if strings.EqualFold(variable, "HTTPS_PROXY") {
					upstream = "https://example.com"
				}
				f.at(upstream, cmd)
				cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+cert, variable+"=http://"+proxy.listener.Addr().String())
				cmd.Env = append(cmd.Env, more...)
				o := f.ended(cmd).must(t, 0)
				require.Equal(t, len(steps), strings.Count(o.stdout, "200"), o.stdout)
				require.EqualValues(t, len(steps), m.served.Load())
				heard := proxy.recorded.String()
				for _, canary := range []string{keyCanary, promptCanary, answerCanary, "127.0.0.1"} {
					if strings.Contains(heard, canary) { // what it heard is long, and no text
						t.Errorf("the proxy has %s", canary)
					}
				}
				if upstream == m.URL {
					require.Empty(t, heard)
				} else {
					require.True(t, strings.HasPrefix(heard, "CONNECT example.com:443 HTTP/1.1\r\n"), "the meter does not use the proxy")
				}
			})
		}
	}
}

// TestMeterHint has a command that would refuse to start, which is said first.
func TestMeterHint(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), serveModels(t)
	gemini := filepath.Join(t.TempDir(), "gemini")
	require.NoError(t, os.WriteFile(gemini, []byte("#!/bin/sh\necho Invalid auth method selected. >&2\nexit 41\n"), 0o700))
	cmd := f.at(m.URL, f.program("--meter", "--tokens", "5000", "--", gemini, "-p", "x"))
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "GEMINI_CLI_HOME=")
	o := f.ended(cmd).must(t, 41)
	require.Regexp(t, `^watchdog: Gemini CLI calls .* gemini-api-key.*settings\.json\nInvalid auth`,
		strings.ReplaceAll(o.stderr, `"`, " "))
}

// TestMeterUnsent has calls that never reach their API, because a proxy refuses: each may use more than 1,000 tokens,
// so that two of them would be the last. They cost nothing, and the client and the last line say why.
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
		require.Equal(t, "watchdog: "+last+"\n", o.stderr)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		require.Len(t, lines, 4)
		for _, line := range lines {
			require.Regexp(t, `^502  "{.*}\\n"$`, line, "with no word about another try")
			require.Contains(t, line, cause)
		}
		require.NotContains(t, o.stdout+o.stderr, keyCanary)
	})
	t.Run("and nothing is used", func(t *testing.T) {
		o := f.ended(cmd("--json", steps...)).must(t, 4)
		said, report, _ := strings.Cut(o.stderr, "\n")
		require.Equal(t, "watchdog: "+last, said)
		var got struct {
			Spent []struct{ Used, Admitted int64 }
		}
		require.NoError(t, json.Unmarshal([]byte(report), &got), o.stderr)
		require.Len(t, got.Spent, 1)
		require.Zero(t, got.Spent[0])
	})
	t.Run("and the command has to be ended", func(t *testing.T) {
		o := f.ended(cmd("--no-output 3s", append(steps[:4:4], "stay")...)).must(t, 124)
		require.Regexp(t, "^watchdog: .*: ended by SIGINT; "+regexp.QuoteMeta(last)+"\n$", o.stderr)
	})
}
