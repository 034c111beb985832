package release_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

func TestOpen(t *testing.T) {
	t.Run("each module comes after those that it requires", func(t *testing.T) {
		modules, err := release.Open(repository(t))
		require.NoError(t, err)
		require.Equal(t, []string{"v0.1.0", "store/disk/v0.1.0", "app/v0.1.0"}, modules.Tags("v0.1.0"))
	})
	t.Run("one that go.work does not use is one of them if it replaces the root's", func(t *testing.T) {
		modules, err := release.Open(repository(t, fourth))
		require.NoError(t, err)
		require.Equal(t, []string{"v0.1.0", "store/disk/v0.1.0", "app/v0.1.0", "extra/v0.1.0"}, modules.Tags("v0.1.0"))
	})

	for name, test := range map[string]struct{ files, says string }{
		"modules that require each other": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\nrequire example.com/m/app v0.1.0\n",
			"example.com/m/app requires example.com/m/store/disk requires example.com/m/app",
		},
		"a module that is not named after its directory": {
			"-- app/go.mod --\nmodule example.com/m/other\n",
			"must be named example.com/m/app",
		},
		"no module in the root": {
			"-- go.work --\ngo 1.25.0\n\nuse ./store/disk\n",
			"no module in the root",
		},
		"a module that is missing": {
			"-- go.work --\ngo 1.25.0\n\nuse ./gone\n",
			"no such file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := release.Open(repository(t, test.files))
			require.ErrorContains(t, err, test.says)
		})
	}
}
