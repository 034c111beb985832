package modelproxy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
)

func TestEnviron(t *testing.T) {
	f := start(t, watchdog.Spend{}, nil)
	own := []string{
		"ANTHROPIC_BASE_URL=" + f.proxy.URL(modelproxy.Anthropic), "OPENAI_BASE_URL=" + f.proxy.URL(modelproxy.OpenAI),
		"GOOGLE_GEMINI_BASE_URL=" + f.proxy.URL(modelproxy.Gemini),
	}
	for name, c := range map[string]struct{ env, want []string }{
		"what else there is stays": {
			[]string{"A=B", "OPENAI_BASE_URL=https://gateway", "no_proxy=x.example", "ANTHROPIC_BASE_URL="},
			append([]string{"A=B", "no_proxy=x.example"}, own...),
		},
		"Claude Code signs nothing with an API key": {
			[]string{"ANTHROPIC_API_KEY=x"}, append(append([]string{"ANTHROPIC_API_KEY=x"}, own...), "CLAUDE_CODE_ATTRIBUTION_HEADER=0"),
		},
		"but as it is told": {
			[]string{"ANTHROPIC_API_KEY=x", "CLAUDE_CODE_ATTRIBUTION_HEADER=1"},
			append([]string{"ANTHROPIC_API_KEY=x", "CLAUDE_CODE_ATTRIBUTION_HEADER=1"}, own...),
		},
		"nor without a key": {[]string{"ANTHROPIC_API_KEY="}, append([]string{"ANTHROPIC_API_KEY="}, own...)},
		"a proxy is not asked for the loopback interface": {
			[]string{"HTTPS_PROXY=http://p"},
			append(append([]string{"HTTPS_PROXY=http://p"}, own...), "NO_PROXY=127.0.0.1,localhost,::1", "no_proxy=127.0.0.1,localhost,::1"),
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, f.proxy.Environ(c.env)) })
	}
}

// TestDirect has what clients reach without a proxy, as the variables say in their environment.
func TestDirect(t *testing.T) {
	const all = "127.0.0.1,localhost,::1"
	f := start(t, watchdog.Spend{}, nil)
	last := func(env []string, name string) (value string, set bool) {
		for _, pair := range env {
			if of, is, _ := strings.Cut(pair, "="); of == name {
				value, set = is, true
			}
		}
		return value, set
	}
	for _, proxy := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "Https_Proxy"} {
		for name, c := range map[string]struct {
			env          []string
			upper, lower string
		}{
			"neither is set":                  {nil, all, all},
			"the upper is missing":            {[]string{"no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"the lower is missing":            {[]string{"NO_PROXY=x.example"}, "x.example," + all, "x.example," + all},
			"an empty one is missing":         {[]string{"NO_PROXY=", "no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"a blank one is missing":          {[]string{"NO_PROXY= ", "no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"each keeps its own":              {[]string{"NO_PROXY=x", "no_proxy=y"}, "x," + all, "y," + all},
			"the last of a name counts":       {[]string{"no_proxy=a", "no_proxy=x.example"}, "x.example," + all, "x.example," + all},
			"a lone star stays":               {[]string{"NO_PROXY=*", "no_proxy=x"}, "*", "x," + all},
			"and is copied":                   {[]string{"no_proxy=*"}, "*", "*"},
			"a star in a list is not alone":   {[]string{"no_proxy=*,x"}, "*,x," + all, "*,x," + all},
			"nor is one that curl would miss": {[]string{"no_proxy= *"}, " *," + all, " *," + all},
			"what is named is not doubled":    {[]string{"NO_PROXY=127.0.0.1,x", "no_proxy=" + all}, "127.0.0.1,x,localhost,::1", all},
			"in any case and with blanks":     {[]string{"NO_PROXY=LocalHost , ::1"}, "LocalHost , ::1,127.0.0.1", "LocalHost , ::1,127.0.0.1"},
			"a list with a comma at its end":  {[]string{"NO_PROXY=x, "}, "x," + all, "x," + all},
			"a list of blanks, which Go and Python take for one name": {
				[]string{"NO_PROXY=x 127.0.0.1"}, "x 127.0.0.1," + all, "x 127.0.0.1," + all,
			},
			"a port is another name": {[]string{"NO_PROXY=localhost:80"}, "localhost:80," + all, "localhost:80," + all},
		} {
			t.Run(proxy+": "+name, func(t *testing.T) {
				env := f.proxy.Environ(append([]string{proxy + "=http://p"}, c.env...))
				upper, _ := last(env, "NO_PROXY")
				lower, _ := last(env, "no_proxy")
				assert.Equal(t, c.upper, upper)
				assert.Equal(t, c.lower, lower)
			})
		}
	}
	t.Run("without a proxy both stay as they are", func(t *testing.T) {
		env := f.proxy.Environ([]string{"HTTPS_PROXY=", "no_proxy=x"})
		_, set := last(env, "NO_PROXY")
		assert.False(t, set)
		lower, _ := last(env, "no_proxy")
		assert.Equal(t, "x", lower)
	})
}
