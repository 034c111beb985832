package modelproxy_test

import (
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
		"an HTTP proxy is not asked for the loopback interface": {
			[]string{"HTTP_PROXY=http://p"}, append(append([]string{"HTTP_PROXY=http://p"}, own...), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"),
		},
		"and what it is not asked for either stays so for clients that read one name only": {
			[]string{"all_proxy=http://p", "no_proxy=a", "no_proxy=x.example"},
			append(append([]string{"all_proxy=http://p", "no_proxy=a", "no_proxy=x.example"}, own...),
				"NO_PROXY=x.example,127.0.0.1", "no_proxy=x.example,127.0.0.1"),
		},
		"a star stays alone": {
			[]string{"http_proxy=http://p", "no_proxy=x", "NO_PROXY=*"},
			append(append([]string{"http_proxy=http://p", "no_proxy=x", "NO_PROXY=*"}, own...), "NO_PROXY=*", "no_proxy=x,127.0.0.1"),
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, f.proxy.Environ(c.env)) })
	}
}
