package signame_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/signame"
)

func TestName(t *testing.T) {
	for sig, name := range map[syscall.Signal]string{
		syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGKILL: "SIGKILL",
	} {
		require.Equal(t, name, signame.Name(sig))
		require.Empty(t, signame.Unfit(sig))
	}
	require.Equal(t, syscall.Signal(1000).String(), signame.Name(1000))
	for _, none := range []syscall.Signal{-1, 0, 1000} {
		require.Equal(t, "is no signal of this system", signame.Unfit(none), none)
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"SIGTERM", "TERM", "term", "SigTerm", "15"} {
		sig, problem := signame.Parse(text)
		require.Empty(t, problem, text)
		require.Equal(t, syscall.SIGTERM, sig, text)
	}
	for _, text := range []string{"", "SIG", "SIGSIGTERM", "TERM ", "NONE", "0", "-15", "1000", "99999999999999999999"} {
		_, problem := signame.Parse(text)
		require.Equal(t, "is no signal of this system", problem, text)
	}
}
