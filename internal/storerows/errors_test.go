package storerows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

func TestCheckVersion(t *testing.T) {
	for _, test := range []struct {
		about                         string
		version, oldestReader, newest int
		refused                       bool
	}{
		{"an empty database", 0, 0, 3, false},
		{"an older one", 2, 2, 3, false},
		{"one of this version", 3, 3, 3, false},
		{"one of this version that names a newer reader", 3, 4, 3, false},
		{"a newer one that names no reader", 4, 0, 3, true},
		{"a newer one for newer readers", 5, 4, 3, true},
		{"a newer one for this reader", 4, 3, 3, false},
		{"a newer one for older readers", 9, 1, 3, false},
	} {
		t.Run(test.about, func(t *testing.T) {
			err := storerows.CheckVersion(test.version, test.oldestReader, test.newest)
			if !test.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, storerows.ErrNewerSchema)
		})
	}
}
