package release_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/tools/internal/release"
)

func TestVersion(t *testing.T) {
	modules, err := release.Open(repository(t))
	require.NoError(t, err)
	version, err := modules.Version()
	require.NoError(t, err)
	require.Equal(t, "v0.1.0", version)

	for name, test := range map[string]struct{ files, says string }{
		"a requirement of another version": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\nrequire example.com/m v0.2.0\n",
			"go.mod has example.com/m v0.1.0, others are at v0.2.0",
		},
		"a requirement of another version beside go.work": {
			fourth + "-- extra/go.mod --\nmodule example.com/m/extra\n\nrequire example.com/m v0.2.0\n\n" +
				"replace example.com/m => ../\n",
			"go.mod has example.com/m v0.2.0, others are at v0.1.0",
		},
		"a module that replaces another": {
			"-- store/disk/go.mod --\nmodule example.com/m/store/disk\n\nreplace example.com/m => ../..\n",
			"go.mod replaces example.com/m",
		},
		"a workspace that replaces not all": {
			"-- go.work --\ngo 1.25.0\n\nuse .\nuse ./store/disk\n\nreplace example.com/m v0.1.0 => .\n",
			"go.work does not replace example.com/m/store/disk by store/disk",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t, test.files)
			modules, err := release.Open(root)
			require.NoError(t, err)
			_, err = modules.Version()
			require.ErrorContains(t, err, test.says)

			require.NoError(t, modules.SetVersion("v0.3.0"))
			modules, err = release.Open(root)
			require.NoError(t, err)
			version, err := modules.Version()
			require.NoError(t, err, "SetVersion fixes it")
			require.Equal(t, "v0.3.0", version)
		})
	}
}

func TestSetVersion(t *testing.T) {
	root := repository(t, fourth)
	modules, err := release.Open(root)
	require.NoError(t, err)
	require.NoError(t, modules.SetVersion("v1.2.3-rc.1"))

	require.Equal(t, "module example.com/m/extra\n\ngo 1.25.0\n\nrequire example.com/m v1.2.3-rc.1\n\n"+
		"replace example.com/m => ../\n", read(t, filepath.Join(root, "extra", "go.mod")))
	require.Equal(t, "module example.com/m\n\ngo 1.25.0\n", read(t, filepath.Join(root, "go.mod")))
	require.Equal(t, `module example.com/m/app

go 1.25.0

require (
	example.com/m v1.2.3-rc.1
	example.com/m/store/disk v1.2.3-rc.1
)
`, read(t, filepath.Join(root, "app", "go.mod")))
	require.Equal(t, `go 1.25.0

use (
	.
	./app
	./store/disk
)

replace (
	example.com/m v1.2.3-rc.1 => .
	example.com/m/app v1.2.3-rc.1 => ./app
	example.com/m/store/disk v1.2.3-rc.1 => ./store/disk
)
`, read(t, filepath.Join(root, "go.work")))
}

func TestSetVersionRefuses(t *testing.T) {
	root := repository(t)
	modules, err := release.Open(root)
	require.NoError(t, err)
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3+meta", "v2.0.0", "v0.0.0-20260102030405-abcdefabcdef"} {
		require.Error(t, modules.SetVersion(version), version)
	}
	require.Contains(t, read(t, filepath.Join(root, "go.work")), "example.com/m v0.1.0 => .", "nothing was written")
}
