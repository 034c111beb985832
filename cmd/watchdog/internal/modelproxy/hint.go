package modelproxy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hint returns what a command needs besides the environment of a proxy, empty if it is nothing that is known.
//
// Gemini CLI takes GOOGLE_GEMINI_BASE_URL for the base of a gateway with another kind of authentication, and ends with
// "Invalid auth method selected" without a terminal, unless its settings choose one. No flag or variable does: settings
// for all users, which a variable names, have to be root's, below folders of root's.
func Hint(command []string, lookup func(variable string) (string, bool)) string {
	if !runsGemini(command) || isTrue(lookup, "GOOGLE_GENAI_USE_VERTEXAI") || isTrue(lookup, "GOOGLE_GENAI_USE_GCA") {
		return ""
	}
	home, _ := lookup("GEMINI_CLI_HOME")
	if home == "" {
		home, _ = lookup("HOME")
	}
	settings := filepath.Join(home, ".gemini", "settings.json")
	if text, err := os.ReadFile(settings); err == nil && bytes.Contains(text, []byte(`"selectedType"`)) {
		return ""
	}
	return fmt.Sprintf(`Gemini CLI calls a base other than Google's only if its settings choose the API key: write `+
		`{"security":{"auth":{"selectedType":"gemini-api-key"}}} to %s`, settings)
}

func isTrue(lookup lookupFunc, variable string) bool {
	value, _ := lookup(variable)
	return value == "true"
}

// starters are commands that have another one in their arguments.
var starters = []string{"sh", "bash", "dash", "zsh", "env", "npx", "exec"}

// runsGemini reports whether a command is Gemini CLI, or starts it.
func runsGemini(command []string) bool {
	for word := range strings.FieldsSeq(strings.Join(command, " ")) {
		name := filepath.Base(word)
		if name == "gemini" || strings.HasPrefix(name, "gemini-cli") {
			return true
		}
		if !slices.Contains(starters, name) && !strings.HasPrefix(name, "-") && !strings.Contains(name, "=") {
			return false
		}
	}
	return false
}
