package agents_test

import (
	"context"
	"io"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/cmd/launcher"
	"google.golang.org/adk/v2/cmd/launcher/full"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogadk"
)

// talk is what the README of watchdogadk shows for a person who types, but for the config: see TestLauncherDocument.
func talk(ctx context.Context, llm model.LLM, cfg watchdog.Config) error {
	guard := watchdogadk.New(watchdogadk.Config{})
	helper, err := llmagent.New(llmagent.Config{Name: "helper", Model: guard.Model(llm)})
	if err != nil {
		return err
	}
	turns, err := guard.Invocations(func(turn agent.InvocationContext) (*watchdog.Watchdog, error) {
		return watchdog.New(turn, watchdog.Run{}, cfg)
	})
	if err != nil {
		return err
	}
	return full.NewLauncher().Execute(ctx, &launcher.Config{
		AgentLoader:  agent.NewSingleLoader(helper),
		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{turns}},
	}, os.Args[1:])
}

// TestLauncher is a person who types after an hour, and goes on after a turn that hung, with the launcher of the SDK.
func TestLauncher(t *testing.T) {
	m := &echo{hangs: make(chan struct{})}
	now := clock.NewMock()
	cfg := watchdog.Config{Clock: now, Budget: watchdog.Budget{WallClock: time.Hour, Idle: time.Minute}}
	person, screen := terminal(t)
	done := make(chan error, 1)
	go func() { done <- talk(t.Context(), m, cfg) }()

	reads := func(want string) {
		t.Helper()
		var seen strings.Builder
		for text := make([]byte, 1024); !strings.HasSuffix(seen.String(), "User -> "); {
			n, err := screen.Read(text)
			require.NoError(t, err, seen.String())
			seen.Write(text[:n])
		}
		assert.Contains(t, seen.String(), want)
	}
	types := func(line string) {
		t.Helper()
		_, err := io.WriteString(person, line+"\n")
		require.NoError(t, err)
	}
	reads("")
	types("hello")
	reads("Agent -> you said hello\n")
	now.Add(10 * time.Hour) // the person thinks
	types("again")
	reads("Agent -> you said again\n")
	types("hang")
	<-m.hangs
	now.Add(time.Minute + 1)
	reads("AGENT_ERROR: run ")
	types("still there?")
	reads("Agent -> you said still there?\n")
	require.NoError(t, person.Close())
	require.NoError(t, <-done)
}

// terminal has the process read what the test writes, and returns what it shows.
func terminal(t *testing.T) (person io.WriteCloser, screen *os.File) {
	t.Helper()
	in, person, err := os.Pipe()
	require.NoError(t, err)
	screen, out, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, screen.SetReadDeadline(time.Now().Add(time.Minute)))
	oldIn, oldOut, oldArgs := os.Stdin, os.Stdout, os.Args
	os.Stdin, os.Stdout, os.Args = in, out, os.Args[:1]
	t.Cleanup(func() {
		os.Stdin, os.Stdout, os.Args = oldIn, oldOut, oldArgs
		for _, f := range []io.Closer{in, out, person, screen} {
			_ = f.Close()
		}
	})
	return person, screen
}

// An echo is a model that says what it was told last, and hangs if it is told to.
type echo struct{ hangs chan struct{} }

func (*echo) Name() string { return "echo" }

func (m *echo) GenerateContent(
	ctx context.Context, req *model.LLMRequest, _ bool,
) iter.Seq2[*model.LLMResponse, error] {
	said := req.Contents[len(req.Contents)-1].Parts[0].Text
	return func(yield func(*model.LLMResponse, error) bool) {
		if said == "hang" {
			close(m.hangs)
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		yield(adkAnswer(genai.NewPartFromText("you said "+said)), nil)
	}
}

// TestLauncherDocument checks that the README shows what [talk] does.
func TestLauncherDocument(t *testing.T) {
	source, err := os.ReadFile("launcher_test.go")
	require.NoError(t, err)
	document, err := os.ReadFile("../../watchdogadk/README.md")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(document), "```go\ncfg := watchdog.Config{")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	_, rest, _ := strings.Cut(shown, "\n")
	assert.Contains(t, rest, "launcher.Config{")
	indented := "\t" + strings.ReplaceAll(strings.TrimSpace(rest), "\n", "\n\t")
	assert.Contains(t, string(source), indented)
}
