package agents_test

import (
	"os"
	"path"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/doccode"
)

const module = "github.com/seed62658d38/watchdog"

// packages are those that the snippets of each adapter use, by name: two SDKs have some in common.
var packages = map[string]map[string]string{
	"watchdogadk": {
		"agent":    "google.golang.org/adk/v2/agent",
		"full":     "google.golang.org/adk/v2/cmd/launcher/full",
		"launcher": "google.golang.org/adk/v2/cmd/launcher",
		"llmagent": "google.golang.org/adk/v2/agent/llmagent",
		"os":       "os",
		"plugin":   "google.golang.org/adk/v2/plugin",
		"runner":   "google.golang.org/adk/v2/runner",
	},
	"watchdogeino": {
		"adk":     "github.com/cloudwego/eino/adk",
		"compose": "github.com/cloudwego/eino/compose",
	},
	"watchdogmcp": {
		"exec":  "os/exec",
		"mcp":   "github.com/modelcontextprotocol/go-sdk/mcp",
		"stall": module + "/stall",
	},
}

// TestCodeInDocuments checks that the code of each adapter's README and package comment compiles, and that its examples
// are whole programs, as pkg.go.dev shows them.
func TestCodeInDocuments(t *testing.T) {
	host, err := os.ReadFile("testdata/host.go")
	require.NoError(t, err)
	for name, used := range packages {
		t.Run(name, func(t *testing.T) {
			used[name], used["watchdog"], used["time"] = path.Join(module, name), module, "time"
			checker, err := doccode.New(".", used, "testdata/host.go", string(host))
			require.NoError(t, err)
			read := func(file string) string {
				text, err := os.ReadFile(path.Join("../..", name, file))
				require.NoError(t, err)
				return string(text)
			}
			snippets := doccode.Markdown(name+"/README.md", read("README.md"))
			require.NotEmpty(t, snippets)
			examples, err := doccode.Examples(name+"/example_test.go", read("example_test.go"))
			require.NoError(t, err)
			require.NotEmpty(t, examples)
			comments := doccode.Comment(name+"/doc.go", read("doc.go"))
			for _, all := range [][]doccode.Snippet{snippets, comments, examples} {
				require.NoError(t, checker.Check(t.Context(), all))
			}
		})
	}
}
