package release_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

func TestWithoutOwn(t *testing.T) {
	modules, err := release.Open(repository(t))
	require.NoError(t, err)
	for sums, want := range map[string]string{
		"": "",
		"example.com/m v0.1.0 h1:a=\nexample.com/m v0.1.0/go.mod h1:b=\n":     "",
		"example.com/a v1.0.0 h1:a=\nexample.com/m/store/disk v0.1.0 h1:b=\n": "example.com/a v1.0.0 h1:a=\n",
	} {
		require.Equal(t, want, string(modules.WithoutOwn([]byte(sums))))
	}

	const others = "example.com/m2 v0.1.0 h1:a=\nexample.com/m/store v0.1.0 h1:b=\n"
	require.Equal(t, others, string(modules.WithoutOwn([]byte(others))), "paths that only begin alike")
}
