package modelproxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/modelproxy"
)

// TestHint has what Gemini CLI is told, which refuses to start otherwise.
func TestHint(t *testing.T) {
	const chosen = `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`
	for name, c := range map[string]struct {
		command  string
		settings string
		env      string
		want     bool
	}{
		"Gemini CLI without settings":          {"gemini -p x", "", "", true},
		"by its path":                          {"/usr/bin/gemini", "", "", true},
		"with other settings":                  {"gemini", `{"ui": {}}`, "", true},
		"from the registry":                    {"npx -y @google/gemini-cli@1.2.3 -p x", "", "", true},
		"in a shell":                           {"sh -c exec gemini -p x", "", "", true},
		"with a variable of its own":           {"env A=B gemini", "", "", true},
		"with settings that choose":            {"gemini", chosen, "", false},
		"which calls Vertex AI":                {"gemini", "", "GOOGLE_GENAI_USE_VERTEXAI", false},
		"which calls for an account":           {"gemini", "", "GOOGLE_GENAI_USE_GCA", false},
		"another command":                      {"claude -p gemini", "", "", false},
		"another command in a shell":           {"sh -c echo gemini", "", "", false},
		"nothing but what starts something":    {"sh", "", "", false},
		"a command with the name in its own":   {"geminid", "", "", false},
		"settings that cannot choose anything": {"gemini", "nothing", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			settings := filepath.Join(home, ".gemini", "settings.json")
			if c.settings != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(settings), 0o700))
				require.NoError(t, os.WriteFile(settings, []byte(c.settings), 0o600))
			}
			for _, variable := range []string{"HOME", "GEMINI_CLI_HOME"} {
				hint := modelproxy.Hint(strings.Split(c.command, " "), func(name string) (string, bool) {
					switch name {
					case variable:
						return home, true
					case c.env:
						return "true", true
					case "HOME":
						return "/nowhere", true
					}
					return "", false
				})
				if !c.want {
					assert.Empty(t, hint)
					continue
				}
				assert.Contains(t, hint, settings)
				assert.Contains(t, hint, "gemini-api-key")
			}
		})
	}
}
