package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

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
	t.Run("whose certificates cannot be read, which is said", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		cmd := f.metered(m, "--tokens 5000", "ask:chat")
		cmd.Env = append(cmd.Env, "NODE_EXTRA_CA_CERTS="+f.path("gone.pem"))
		o := f.ended(cmd).must(t, 0)
		assert.Equal(t, `watchdog: certificates are not read, variable "NODE_EXTRA_CA_CERTS", error "open `+f.path("gone.pem")+
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
			t.Run(name+" refuses a call of "+call+" and ends the command", func(t *testing.T) {
				t.Parallel()
				f, m := newFixture(t), serveModels(t)
				line := append(append([]string{"--meter"}, c.flags...), "--")
				// The command gets its SIGINT at once, and waits for its answers all the same.
				steps := append([]string{"ignore:INT"}, append(slices.Repeat([]string{"ask:" + call}, 60), "obey:TERM:0", "stay")...)
				line = append(line[:len(line)-1], "--grace-int", "5s", "--")
				o := f.ended(f.at(m.URL, f.program(append(line, f.child(steps...)...)...))).must(t, 124)
				assert.Regexp(t, "^watchdog: a call did not fit in its limit: "+c.says+": ended by SIGTERM\n$", o.stderr)
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
			assert.Regexp(t, `^watchdog: a call did not fit in its limit: tokens: 100 of 100 left, and this call may need [\d,]+: `+
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
		assert.Regexp(t, "^400 false .*\n200  ", o.stdout)
		assert.Regexp(t, "^watchdog: 1 of the command's calls were refused, the first because: call of run [0-9a-z-]+ refused: tokens: "+
			"1,310 of 1,310 left, and this call may need [0-9,]+, more than there is before wrapping up", o.stderr)
		o = f.ended(f.metered(m, "--json --config "+settings, "ask:chat", "ask:chat")).must(t, 0)
		assert.NotContains(t, o.stderr, "turns", "a proxy sees none")
	})
	t.Run("counts what names content elsewhere only with --model-max", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		o := f.ended(f.metered(m, "--tokens 5000", "ask:stored", "exit:1")).must(t, 1)
		assert.Contains(t, o.stdout, "400 false ")
		assert.Equal(t, "watchdog: 1 of the command's calls were refused, the first because: what the call can use is unbounded: "+
			"its input is by reference (previous_response_id); declare the maximum of a call of model \"m\", "+
			"with --model-max 'MODEL=INPUT:OUTPUT'\n", o.stderr)
		o = f.ended(f.metered(m, "--tokens 5000 --model-max *=1000:100", "ask:stored+stream")).must(t, 0)
		assert.Contains(t, o.stdout, "200 ")
	})
	t.Run("writes a maximum of output where a call has none", func(t *testing.T) {
		t.Parallel()
		f, m := newFixture(t), serveModels(t)
		o := f.ended(f.metered(m, "--tokens 5000", "ask:open")).must(t, 0)
		assert.Contains(t, o.stdout, "200 ")
		assert.Empty(t, o.stderr)
		o = f.ended(f.metered(m, "--tokens 5000 --no-shrink", "ask:open", "exit:1")).must(t, 1)
		assert.Contains(t, o.stderr, "it has no maximum of output; declare the maximum of a call of model \"m\", "+
			"with --model-max 'MODEL=INPUT:OUTPUT'\n")
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, m := newFixture(t), serveModels(t)
			cmd := f.metered(m, "--tokens 100 "+strings.TrimPrefix(c.flags, "off"), c.step)
			if c.flags == "off" {
				cmd.Env = append(cmd.Env, "WATCHDOG_DISABLED=true")
			}
			o := f.ended(cmd).must(t, c.status)
			if c.says != "" || c.status == 0 {
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
		{`--errors-free: "https://a.example" is no host; write its name alone`, "--meter --tokens 5 --errors-free https://a.example"},
		{`--errors-free: "a.example:443" is no host`, "--meter --tokens 5 --errors-free a.example:443"},
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
