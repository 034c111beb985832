package main_test

import (
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/session"
)

// Each call of a model uses so many tokens.
const (
	tokensIn, tokensOut = 30, 20
	tokensEach          = tokensIn + tokensOut
)

// answers are what the models say, whole and streamed.
var answers = map[string][2]string{
	"/v1/messages": {
		`{"type":"message","model":"m","content":"ANSWER","usage":{"input_tokens":30,"output_tokens":20}}`,
		`data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":30,"output_tokens":1}}}

data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"ANSWER"}}

data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}

`,
	},
	"/v1/chat/completions": {
		`{"model":"m","choices":[{"message":{"content":"ANSWER"}}],"usage":{"prompt_tokens":30,"completion_tokens":20}}`,
		`data: {"model":"m","choices":[{"delta":{"content":"ANSWER"}}]}

data: {"model":"m","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":20}}

data: [DONE]

`,
	},
	"/v1/responses": {
		`{"object":"response","status":"completed","model":"m","output":["ANSWER"],"usage":{"input_tokens":30,"output_tokens":20}}`,
		`data: {"type":"response.output_text.delta","delta":"ANSWER"}

data: {"type":"response.completed","response":{"status":"completed","model":"m","usage":{"input_tokens":30,"output_tokens":20}}}

`,
	},
	"/v1beta/models/m:generateContent": {
		`{"candidates":[{"content":"ANSWER"}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":20}}`,
	},
	"/v1beta/models/m:streamGenerateContent": {
		"", `data: {"candidates":[{"content":"ANSWER","finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":20}}

`,
	},
}

// A models is a server in the place of all model APIs.
type models struct {
	*httptest.Server
	*testing.T

	served, proto atomic.Int64
	wait          chan struct{} // an answer ends when it is closed, if it is not nil
	waiting       chan struct{}
}

func serveModels(t *testing.T, changes ...func(*models)) *models {
	t.Helper()
	m := &models{T: t, waiting: make(chan struct{}, 1000)}
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(m.serve))
	for _, change := range changes {
		change(m)
	}
	if m.URL == "" {
		m.Start()
	}
	t.Cleanup(func() { m.CloseClientConnections(); m.Close() })
	return m
}

// waiting has each answer wait after its first event.
func waiting(m *models) { m.wait = make(chan struct{}) }

func (m *models) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the run has ended meanwhile
	}
	said, known := answers[req.URL.Path]
	if !known || !strings.Contains(string(body), promptCanary) || !strings.Contains(fmt.Sprint(req.Header), keyCanary) {
		m.Errorf("a call of %s came with %v", req.URL, req.Header)
	}
	m.served.Add(1)
	m.proto.Store(int64(req.ProtoMajor))
	text := said[0]
	if text == "" || strings.Contains(string(body), `"stream":true`) {
		text = said[1]
		w.Header().Set("Content-Type", "text/event-stream")
	}
	var out io.Writer = w
	if req.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		defer zipped.Close()
		out = zipped
	}
	for chunk := range strings.SplitAfterSeq(strings.ReplaceAll(text, "ANSWER", answerCanary), "\n\n") {
		_, _ = io.WriteString(out, chunk)
		w.(http.Flusher).Flush()
		if m.wait != nil {
			m.waiting <- struct{}{}
			select {
			case <-m.wait:
			case <-req.Context().Done():
				return
			}
		}
	}
}

// metered returns run with a meter of the models, more flags, and a command of these steps.
func (f *fixture) metered(m *models, flags string, steps ...string) *exec.Cmd {
	f.Helper()
	return f.at(m.URL, f.cmd("--meter "+flags, f.child(steps...)...))
}

// at has the program find the APIs at a server, and no proxy.
func (f *fixture) at(url string, cmd *exec.Cmd) *exec.Cmd {
	f.Helper()
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+url, "OPENAI_BASE_URL="+url+"/v1", "GOOGLE_GEMINI_BASE_URL="+url,
		"HTTP_PROXY=", "HTTPS_PROXY=", "http_proxy=", "https_proxy=", "ALL_PROXY=", "all_proxy=", "NO_PROXY=", "no_proxy=")
	return cmd
}

// ended runs a program to its end and checks that nothing of its command is alive.
func (f *fixture) ended(cmd *exec.Cmd) outcome {
	f.Helper()
	o := finish(f.T, cmd)
	assert.Empty(f, escape.WithToken(f.token), "a process outlives the program")
	return o
}

func TestMeterClients(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		"anthropic", "anthropic+stream", "anthropic+stream+gzip", "chat", "chat+stream", "chat+gzip", "responses",
		"responses+stream", "gemini", "gemini+stream",
	} {
		t.Run(call+" gets what the model says, and it is counted", func(t *testing.T) {
			t.Parallel()
			f, m := newFixture(t), serveModels(t)
			o := f.ended(f.metered(m, "--tokens 5000 --json", "ask:"+call, "ask:"+call, "exit:3")).must(t, 3)
			direct := f.at(m.URL, exec.Command(self(t), f.token, "ask:"+call, "ask:"+call))
			direct.Env = append(os.Environ(), direct.Env...)
			assert.Equal(t, finish(t, direct).stdout, o.stdout, "the answers are changed")
			assert.Contains(t, o.stdout, "200 ")
			var report struct {
				ModelCalls int64            `json:"model_calls"`
				Spent      []watchdog.Usage `json:"spent"`
			}
			require.NoError(t, json.Unmarshal([]byte(o.stderr), &report), o.stderr)
			assert.EqualValues(t, 2, report.ModelCalls)
			require.Len(t, report.Spent, 1)
			assert.EqualValues(t, 2*tokensEach, report.Spent[0].Used)
			assert.Zero(t, report.Spent[0].Admitted)
		})
	}
	t.Run("of an API that speaks HTTP/2", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		m := serveModels(t, func(m *models) { m.EnableHTTP2 = true; m.StartTLS() })
		cert := f.path("cert.pem")
		require.NoError(t, os.WriteFile(cert, pemOf(m.Certificate()), 0o600))
		cmd := f.metered(m, "--tokens 5000", "ask:anthropic+stream")
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+cert)
		assert.Contains(t, f.ended(cmd).must(t, 0).stdout, answerCanary)
		assert.EqualValues(t, 2, m.proto.Load())
	})
	t.Run("whose API is down is told so, and can try again", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		cmd := f.metered(m, "--tokens 5000", "ask:chat", "exit:4")
		m.Close()
		o := f.ended(cmd).must(t, 4)
		assert.Equal(t, "502  \"\"\n", o.stdout)
		assert.Empty(t, o.stderr)
	})
	t.Run("that goes away in the middle of a stream is charged for what it saw", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t, waiting)
		o := f.ended(f.metered(m, "--tokens 5000 --json", "breakOff:anthropic+stream")).must(t, 0)
		assert.Contains(t, o.stderr, `"spent":[{"run":`)
		assert.Contains(t, o.stderr, `"used":31,"allowed":5000}]`)
	})
	t.Run("has the rest of its environment as it was", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		cmd := f.metered(m, "--tokens 5000", "env:ANTHROPIC_BASE_URL", "env:OPENAI_BASE_URL", "env:OPENAI_API_KEY", "env:NO_PROXY",
			"env:no_proxy", "ask:gemini")
		cmd.Env = append(cmd.Env, "OPENAI_API_KEY=x", "no_proxy=host", "http_proxy=http://127.0.0.1:1")
		o := f.ended(cmd).must(t, 0)
		assert.Regexp(t, `^ANTHROPIC_BASE_URL=http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/anthropic
OPENAI_BASE_URL=http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/openai
OPENAI_API_KEY=x
NO_PROXY=host,127\.0\.0\.1
no_proxy=host,127\.0\.0\.1
200 `, o.stdout)
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
		"of tokens": {[]string{"--tokens", "1500"}, `tokens: \d+ of 1500 used, and a call may use \d+`},
		"of money": {
			[]string{"--cost", "0.003 EUR", "--prices", file(t, "prices.json", prices)},
			`cost: 0\.\d{6} EUR of 0\.003000 EUR used, and a call may use 0\.\d{6} EUR`,
		},
	} {
		for call, refusal := range map[string]string{
			"anthropic": `402 false .*billing_error`, "chat+stream": `402 false .*insufficient_quota`,
			"responses": `402 false .*insufficient_quota`, "gemini": `400 false .*FAILED_PRECONDITION`,
		} {
			t.Run(name+" refuses a call of "+call+" and ends the command", func(t *testing.T) {
				t.Parallel()
				f, m := newFixture(t), serveModels(t)
				line := append(append([]string{"--meter"}, c.flags...), "--")
				// The command gets its SIGINT at once, and waits for its answers all the same.
				steps := append([]string{"ignore:INT"}, append(slices.Repeat([]string{"ask:" + call}, 10), "obey:TERM:0")...)
				line = append(line[:len(line)-1], "--grace-int", "1s", "--")
				o := f.ended(f.at(m.URL, f.program(append(line, f.child(steps...)...)...))).must(t, 124)
				assert.Regexp(t, "^watchdog: what it may spend is used up: "+c.says+": ended by SIGTERM\n$", o.stderr)
				served := int(m.served.Load())
				assert.Positive(t, served)
				lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
				require.Greater(t, len(lines), served)
				for _, line := range lines[:served] {
					assert.Regexp(t, "^200 ", line)
				}
				assert.Regexp(t, "^"+refusal, lines[served])
				assert.NotContains(t, lines[served], "Canary")
			})
		}
	}
	t.Run("ends a command that has ended by itself meanwhile with its own status, too", func(t *testing.T) {
		t.Parallel()
		for _, status := range []string{"0", "7"} {
			f, m := newFixture(t), serveModels(t)
			o := f.ended(f.metered(m, "--tokens 100", "ignore:INT", "ignore:TERM", "ask:chat", "exit:"+status)).must(t, 124)
			assert.Regexp(t, `^watchdog: what it may spend is used up: tokens: 0 of 100 used, and a call may use \d+: `+
				`ended (with status `+status+`|by SIGINT)\n$`, o.stderr)
			assert.Zero(t, m.served.Load())
		}
	})
	t.Run("takes SIGKILL where it has to", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		o := f.ended(f.metered(m, "--tokens 100 --grace-int 0s --grace-term 0s", "ignore:INT", "ignore:TERM", "ask:chat", "stay"))
		assert.Contains(t, o.must(t, 137).stderr, ": ended by SIGKILL\n")
	})
	t.Run("asks to wrap up first where there is a reserve, and lets a smaller call be made", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		settings := file(t, "watchdog.yaml", "runtime_controls:\n  spend: {turns: 5, tokens: 1310, reserve: {tokens: 1300}}\n")
		steps := []string{"ask:chat", "ask:chat", "exit:6"}
		o := f.ended(f.metered(m, "--config "+settings, steps...)).must(t, 6)
		assert.Regexp(t, "^402 false .*\n200  ", o.stdout)
		assert.Regexp(t, "^watchdog: 1 of the command's calls were refused, the first because: call of run [0-9a-z-]+ refused: tokens: "+
			"0 of 1310 used", o.stderr)
		o = f.ended(f.metered(m, "--json --config "+settings, "ask:chat", "ask:chat")).must(t, 0)
		assert.NotContains(t, o.stderr, "turns", "a proxy sees none")
	})
	t.Run("counts what does not say its most only with --model-max", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		o := f.ended(f.metered(m, "--tokens 5000", "ask:open", "exit:1")).must(t, 1)
		assert.Contains(t, o.stdout, "402 false ")
		assert.Equal(t, "watchdog: 1 of the command's calls were refused, the first because: what the call can use is unbounded: "+
			"it has no maximum of output; declare the maximum of a call of model \"m\", with --model-max 'MODEL=INPUT:OUTPUT'\n", o.stderr)
		o = f.ended(f.metered(m, "--tokens 5000 --model-max *=0:100", "ask:open+stream")).must(t, 0)
		assert.Contains(t, o.stdout, "200 ")
	})
	t.Run("of money says which model has no price", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		other := file(t, "prices.json", strings.Replace(prices, `"m"`, `"n"`, 1))
		line := []string{"--meter", "--cost", "1 EUR", "--prices", other, "--"}
		o := f.ended(f.at(m.URL, f.program(append(line, f.child("ask:chat", "ask:chat")...)...))).must(t, 0)
		assert.Equal(t, "watchdog: model has no price, model \"m\", of \"model\"\n", o.stderr)
	})
}

// TestMeterTogether has many calls at once, whose sum must not exceed the cap.
func TestMeterTogether(t *testing.T) {
	t.Parallel()
	const limit = 60_000
	check := func(t *testing.T, m *models, o outcome) {
		t.Helper()
		o.must(t, 124)
		assert.LessOrEqual(t, m.served.Load()*tokensEach, int64(limit), "the cap was overstepped")
		assert.Greater(t, m.served.Load()*tokensEach, int64(limit/4), "it was not used")
	}
	flags := fmt.Sprintf("--tokens %d", limit)
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		check(t, m, f.ended(f.metered(m, flags, "askAll:anthropic+stream", "stay")))
	})
	eachStore(t, func(t *testing.T, s testStore) {
		f, m := newFixture(t), serveModels(t)
		check(t, m, f.ended(f.at(m.URL, f.stored(s, "--meter --id job "+flags, f.child("askAll:anthropic+stream", "stay")...))))
	})
	t.Run("two runs share nothing", func(t *testing.T) {
		t.Parallel()
		m := serveModels(t, waiting)
		var runs []*exec.Cmd
		var said []*strings.Builder
		f := newFixture(t)
		for range 2 {
			cmd := f.metered(m, "--tokens 1400", "env:OPENAI_BASE_URL", "ask:chat")
			out := &strings.Builder{}
			cmd.Stdout = out
			require.NoError(t, cmd.Start())
			runs, said = append(runs, cmd), append(said, out)
		}
		<-m.waiting
		<-m.waiting // both are under way
		close(m.wait)
		for i, cmd := range runs {
			require.NoError(t, cmd.Wait(), said[i])
			assert.Contains(t, said[i].String(), "200 ")
		}
		first, _, _ := strings.Cut(said[0].String(), "\n")
		second, _, _ := strings.Cut(said[1].String(), "\n")
		assert.NotEqual(t, first, second)
	})
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
				cmd.Env = append(cmd.Env, "WATCHDOG_KEEPER_THRESHOLD_MS=1000") // its row is at most a tenth of it behind
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
				assert.Regexp(t, "^watchdog: what it may spend is used up: tokens: [^:]*: ended by SIGINT; see: watchdog why "+id+"\n$", o.stderr)
				row, reason, stored := s.end(t, id)
				const code = "watchdog_tokens_exceeded"
				assert.Equal(t, []string{"cancelled", code, code}, []string{string(row), reason, stored})
				why := s.program(t, "why", id).stdout
				assert.Contains(t, why, code)
				assert.Regexp(t, `tokens: \d+ of 3000 used`, why)
				assert.LessOrEqual(t, m.served.Load()*tokensEach, int64(3000))
				// A run that was stopped so starts nothing before its resume.
				o = f.ended(f.at(m.URL, f.stored(s, "--meter --tokens 3000 --id "+id, f.child("touch:"+f.path("started"))...))).must(t, 124)
				assert.Regexp(t, "^watchdog: what it may spend is used up: .*, before the command started\n$", o.stderr)
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
				assert.Contains(t, s.program(t, "why", id).stdout, "tokens: 100 of 3000 used")
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
			assert.LessOrEqual(t, state.Spent[0].Used, int64(31))
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
		"is an error of a command that succeeds":             {"", "exit:0", 125, says},
		"is said of a command that fails":                    {"", "exit:7", 7, says},
		"is said of a command that a signal ended":           {"", "kill:TERM", 143, says},
		"is no matter for one that was stopped":              {"--wall-clock 200ms", "stay", 124, ""},
		"is no matter where all guards are switched off":     {"off", "exit:0", 0, ""},
		"is an error of a command that only looks at models": {"", "env:x", 125, says},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, m := newFixture(t), serveModels(t)
			cmd := f.metered(m, "--tokens 100 "+strings.TrimPrefix(c.flags, "off"), c.step)
			if c.flags == "off" {
				cmd.Env = append(cmd.Env, "WATCHDOG_DISABLED=true")
			}
			o := f.ended(cmd).must(t, c.status)
			if c.says != "" || c.flags == "off" {
				assert.Equal(t, c.says, o.stderr)
			}
			assert.Equal(t, c.says != "", strings.Contains(o.stderr, "no call of a model"))
		})
	}
	t.Run("is in the record", func(t *testing.T) {
		f, m := newFixture(t), serveModels(t)
		o := finish(t, f.at(m.URL, f.stored(s, "--json --meter --tokens 100 --id unused", f.child("exit:0")...))).must(t, 125)
		assert.Contains(t, o.stderr, `"model_calls":0`)
		events, err := s.Read(t.Context(), watchdog.AggregateType, "unused")
		require.NoError(t, err)
		assert.Contains(t, string(events[len(events)-1].Payload), "no call of a model came through its meter")
	})
}

// TestMeterEnds checks that the proxy ends with the command, however that ends.
func TestMeterEnds(t *testing.T) {
	t.Parallel()
	t.Run("while a process that the command left goes on", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		o := finish(t, f.metered(m, "--tokens 5000 --keep-background", "ask:chat+quiet", "env:OPENAI_BASE_URL", "leave")).must(t, 0)
		_, url, _ := strings.Cut(strings.TrimSpace(o.stdout), "=")
		address, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		_, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		left := escape.WithToken(f.token)
		require.Len(t, left, 1)
		require.NoError(t, syscall.Kill(left[0].PID, syscall.SIGKILL))
		eventually(t, "it ends", func() bool { return len(escape.WithToken(f.token)) == 0 })
	})
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
	t.Run("on 127.0.0.1 alone", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		p := start(t, f.metered(m, "--tokens 5000", "ask:chat+quiet", "say:ready", "await:"+f.path("go")))
		out, err := exec.Command("sh", "-c", fmt.Sprintf("cat /proc/%d/net/tcp /proc/%[1]d/net/tcp6; ls -l /proc/%[1]d/fd", p.cmd.Process.Pid)).
			Output()
		require.NoError(t, err)
		var listening int
		for _, at := range regexp.MustCompile(`(?m)^ *\d+: ([0-9A-F]+):[0-9A-F]{4} [0-9A-F:]+ 0A(?: +\S+){5} +(\d+) `).FindAllStringSubmatch(string(out), -1) {
			if strings.Contains(string(out), "socket:["+at[2]+"]") {
				assert.Equal(t, "0100007F", at[1])
				listening++
			}
		}
		assert.Equal(t, 1, listening)
		require.NoError(t, stepFuncs["touch"](f.path("go")))
		p.end().must(t, 0)
	})
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

// TestMeterFlags has command lines that are refused before anything is started.
func TestMeterFlags(t *testing.T) {
	t.Parallel()
	prices := file(t, "prices.json", `{"currency":"USD","date":"2026-08-01","models":{"m":{"input":1000000,"output":10000000}}}`)
	scopes := file(t, "watchdog.yaml", "runtime_controls:\n  scopes: [{scope: tenant, period: day, spend: {tokens: 5}}]\n")
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
		{`--model-max names "m" twice`, "--meter --tokens 5 --model-max m=1:2 --model-max m=2:3"},
		{"runtime_controls.scopes are shared by a store", "--meter --config " + scopes},
	} {
		f := newFixture(t)
		var line []string
		if words := strings.Split(c.line, "|"); len(words) > 1 {
			line = append(strings.Fields(words[0]), words[1:]...)
		} else {
			line = strings.Fields(c.line)
		}
		o := finish(t, f.program(append(append(line, "--"), f.child("touch:"+f.path("started"))...)...)).must(t, 125)
		assert.Contains(t, o.stderr, c.says, c.line)
		assert.Empty(t, o.stdout)
		assert.False(t, f.exists("started"))
	}
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}
