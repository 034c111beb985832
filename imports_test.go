package watchdog_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/importcheck"
)

func TestImports(t *testing.T) {
	problems, err := importcheck.Check(os.DirFS("."))
	require.NoError(t, err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

func TestImportsPicture(t *testing.T) {
	const picture = "docs/packages.svg"
	list, err := importcheck.ReadList(os.DirFS("."))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(picture, list.Picture(), 0o644))
	}
	drawn, err := os.ReadFile(picture)
	require.NoError(t, err, "run make golden to draw it")
	if !bytes.Equal(list.Picture(), drawn) {
		t.Errorf("%s does not show %s: run make golden", picture, importcheck.ListFile)
	}
}
