package main_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refusing is an address at which nobody listens, and nobody can during the test.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}).String()
}

// TestMeterUnsent has calls that never reach their API. They cost nothing, and the client and the last line say why.
func TestMeterUnsent(t *testing.T) {
	t.Parallel()
	// Each call may use more than 1,000 tokens, so that two of them would be the last.
	steps := []string{"ask:anthropic", "ask:chat", "ask:responses", "ask:gemini", "exit:4"}
	for name, begin := range map[string]func(f *fixture) (cmd func(flags string, steps ...string) *exec.Cmd, cause string){
		"nobody listens": func(f *fixture) (func(string, ...string) *exec.Cmd, string) {
			address := refusing(f.T)
			return func(flags string, steps ...string) *exec.Cmd {
				return f.at("http://"+address, f.cmd("--meter "+flags, f.child(steps...)...))
			}, "no answer from " + address + ": dial tcp " + address + ": connect: connection refused"
		},
		"a certificate is not trusted": func(f *fixture) (func(string, ...string) *exec.Cmd, string) {
			m := secretModels(f.T)
			return func(flags string, steps ...string) *exec.Cmd { return f.metered(m, flags, steps...) },
				"no answer from " + m.Listener.Addr().String() + ": tls: failed to verify certificate: x509: certificate signed " +
					"by unknown authority; if you trust it, name the file of its authority in NODE_EXTRA_CA_CERTS"
		},
		"a proxy refuses": func(f *fixture) (func(string, ...string) *exec.Cmd, string) {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusProxyAuthRequired)
			}))
			f.Cleanup(proxy.Close)
			host := proxy.Listener.Addr().String()
			return func(flags string, steps ...string) *exec.Cmd {
				cmd := f.at("https://api.example", f.cmd("--meter "+flags, f.child(steps...)...))
				cmd.Env = append(cmd.Env, "HTTPS_PROXY=http://user:"+keyCanary+"@"+host)
				return cmd
			}, "no answer from api.example: the proxy " + host + " refused the connection: 407 Proxy Authentication Required"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cmd, cause := begin(f)
			last := "4 of the command's calls failed, the first because: " + cause
			t.Run("and the command ends by itself", func(t *testing.T) {
				o := f.ended(cmd("--tokens 1500", steps...)).must(t, 4)
				assert.Equal(t, "watchdog: "+last+"\n", o.stderr)
				lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
				require.Len(t, lines, 4)
				for _, line := range lines {
					assert.Regexp(t, `^502  "{.*}\\n"$`, line, "with no word about another try")
					assert.Contains(t, line, cause)
				}
				assert.NotContains(t, o.stdout+o.stderr, keyCanary)
			})
			t.Run("and nothing is used", func(t *testing.T) {
				o := f.ended(cmd("--tokens 1500 --json", steps...)).must(t, 4)
				said, report, _ := strings.Cut(o.stderr, "\n")
				assert.Equal(t, "watchdog: "+last, said)
				var got struct {
					Spent []struct{ Used, Admitted int64 }
				}
				require.NoError(t, json.Unmarshal([]byte(report), &got), o.stderr)
				require.Len(t, got.Spent, 1)
				assert.Zero(t, got.Spent[0])
			})
			t.Run("and the command has to be ended", func(t *testing.T) {
				o := f.ended(cmd("--tokens 1500 --no-output 3s", append(steps[:4:4], "stay")...)).must(t, 124)
				assert.Regexp(t, "^watchdog: .*: ended by SIGINT; "+regexp.QuoteMeta(last)+"\n$", o.stderr)
			})
		})
	}
}
