package watchdog_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/importcheck"
)

const architecture = "docs/architecture.md"

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// placed is a name in quotes and, in parentheses after it, the link to the Go file that declares it.
var placed = regexp.MustCompile("`([\\w.]+)`\\s+\\(\\[[^\\]]+\\]\\(\\.\\./([^)]+\\.go)\\)\\)")

func TestArchitectureNames(t *testing.T) {
	pages, err := filepath.Glob("docs/architecture*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		for _, match := range placed.FindAllStringSubmatch(readText(t, page), -1) {
			found++
			name, file := match[1][strings.LastIndex(match[1], ".")+1:], match[2]
			declared := regexp.MustCompile(`(?m)^(?:func |func \(.*?\) |type |\t)` + name + `\b`)
			if !declared.MatchString(readText(t, file)) {
				t.Errorf("%s: %s is not in %s any more: correct the walk", page, match[1], file)
			}
		}
	}
	require.Greater(t, found, 30)
}

func TestArchitecturePackages(t *testing.T) {
	list, err := importcheck.ReadList(os.DirFS("."))
	require.NoError(t, err)
	table := readText(t, architecture)
	for _, name := range list.Packages() {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("%s does not say what %s is for: add it to the table", architecture, name)
		}
	}
}

func TestArchitectureLifecycle(t *testing.T) {
	const file = "lifecycle.go"
	comment, _, _ := strings.Cut(readText(t, file), "\ntype phase ")
	var blocks []string // the indented parts of the comment
	for line := range strings.Lines(comment) {
		block, indented := strings.CutPrefix(line, "//\t")
		switch {
		case !indented:
			blocks = append(blocks, "")
		case len(blocks) > 0:
			blocks[len(blocks)-1] += block
		}
	}
	blocks = slices.DeleteFunc(blocks, func(block string) bool { return block == "" })
	require.Len(t, blocks, 2, "the states and the locks in %s", file)
	for _, block := range blocks {
		require.Contains(t, readText(t, architecture), "```text\n"+block+"```\n", "copy it from %s", file)
	}
}
