package watchdog_test

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elements reads an SVG and returns the text in each kind of element.
func elements(t *testing.T, picture string) map[string][]string {
	t.Helper()
	found, open := map[string][]string{}, []string(nil)
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			open = append(open, token.Name.Local)
			found[token.Name.Local] = append(found[token.Name.Local], "")
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			for _, name := range open {
				found[name][len(found[name])-1] += string(token)
			}
		}
	}
}

// TestPictures expects that the pictures of the documents load fast, are read aloud, and can be seen in the dark.
func TestPictures(t *testing.T) {
	names, err := filepath.Glob("docs/*.svg")
	require.NoError(t, err)
	require.Subset(t, names, []string{"docs/run.svg", "docs/hosts.svg", "docs/packages.svg"})
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text := readText(t, name)
			require.LessOrEqual(t, len(text), 25<<10)
			found := elements(t, text)
			require.Len(t, found["title"], 1)
			require.NotEmpty(t, found["title"][0])
			require.Len(t, found["desc"], 1)
			require.NotEmpty(t, found["desc"][0])
			require.Contains(t, text, `role="img" aria-labelledby="t d"`)
			require.Contains(t, text, "@media (prefers-color-scheme: dark)")
			require.NotEmpty(t, found["text"], "labels are text")
			for _, none := range []string{"script", "image", "foreignObject", "use"} {
				require.Empty(t, found[none])
			}
			require.Equal(t, 1, strings.Count(text, "://"), "it loads nothing: only the name of the format")
		})
	}
}
