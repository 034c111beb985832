package main_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A companyProxy records all that it gets, and connects everybody to one address.
type companyProxy struct {
	*testing.T
	listener net.Listener
	to       string
	recorded saidText
	conns    sync.WaitGroup
}

func startProxy(t *testing.T, to string) *companyProxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &companyProxy{T: t, listener: listener, to: to}
	p.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); p.conns.Wait() })
	return p
}

func (p *companyProxy) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(io.TeeReader(conn, &p.recorded))
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if req.Method != http.MethodConnect {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	up, err := (&net.Dialer{}).DialContext(p.Context(), "tcp", p.to)
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	var back sync.WaitGroup
	back.Go(func() { defer conn.Close(); _, _ = io.Copy(conn, io.TeeReader(up, &p.recorded)) })
	_, _ = io.Copy(up, in)
	_ = up.Close()
	back.Wait()
}

// askLiterally:VARIABLE:CALL calls as clients do that send all to any proxy but what the variable names, also what is on
// this machine.
func askLiterally(about string) error {
	variable, call, _ := strings.Cut(about, ":")
	plainClient.Transport.(*http.Transport).Proxy = func(req *http.Request) (*url.URL, error) {
		direct := strings.FieldsFunc(os.Getenv(variable), func(r rune) bool { return r == ',' || r == ' ' })
		if slices.Contains(direct, req.URL.Hostname()) {
			return nil, nil
		}
		for _, name := range proxyVariables {
			if proxy := os.Getenv(name); proxy != "" {
				return url.Parse(proxy)
			}
		}
		return nil, nil
	}
	return askModel(call)
}

// curl:CALL makes a call with curl, and prints its status.
func curlModel(about string) error {
	req, err := request(about)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	words := []string{"-sS", "-o", "/dev/null", "-w", `%{http_code}\n`, "--data-binary", string(body)}
	for name := range req.Header {
		words = append(words, "-H", name+": "+req.Header.Get(name))
	}
	cmd := exec.Command("curl", append(words, req.URL.String())...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

var proxyVariables = []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}

// TestMeterProxy has a company's proxy in the environment, which gets no key and no text of a call: what a command sends
// to its meter does not go there, and what the meter sends to an API does so as without it.
func TestMeterProxy(t *testing.T) {
	t.Parallel()
	for _, variable := range proxyVariables {
		for name, more := range map[string][]string{
			"alone": nil, "with a host in NO_PROXY": {"NO_PROXY=x.example, y.example"}, "with one in no_proxy": {"no_proxy=x.example"},
		} {
			t.Run(variable+" "+name, func(t *testing.T) {
				t.Parallel()
				f, m := newFixture(t), serveModels(t, func(m *models) { m.EnableHTTP2 = true; m.StartTLS() })
				proxy := startProxy(t, m.Listener.Addr().String())
				steps := []string{"ask:chat", "askLiterally:no_proxy:anthropic", "askLiterally:NO_PROXY:gemini"}
				if _, err := exec.LookPath("curl"); err == nil {
					steps = append(steps, "curl:anthropic")
				}
				cmd := f.metered(m, "--tokens 50000", steps...)
				cert := f.path("cert.pem")
				require.NoError(t, os.WriteFile(cert, pemOf(m.Certificate()), 0o600))
				upstream := m.URL // on this machine, for which the meter asks no proxy
				if strings.EqualFold(variable, "HTTPS_PROXY") {
					upstream = "https://example.com"
				}
				f.at(upstream, cmd)
				cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+cert, variable+"=http://"+proxy.listener.Addr().String())
				cmd.Env = append(cmd.Env, more...)
				o := f.ended(cmd).must(t, 0)
				assert.Equal(t, len(steps), strings.Count(o.stdout, "200"), o.stdout)
				assert.EqualValues(t, len(steps), m.served.Load())
				heard := proxy.recorded.String()
				for _, canary := range []string{keyCanary, promptCanary, answerCanary, "127.0.0.1"} {
					if strings.Contains(heard, canary) { // what it heard is long, and no text
						t.Errorf("the proxy has %s", canary)
					}
				}
				if upstream == m.URL {
					assert.Empty(t, heard)
				} else {
					assert.True(t, strings.HasPrefix(heard, "CONNECT example.com:443 HTTP/1.1\r\n"), "the meter does not use the proxy")
				}
			})
		}
	}
}

// TestMeterHint has a command that would refuse to start, which is said first.
func TestMeterHint(t *testing.T) {
	t.Parallel()
	f, m := newFixture(t), serveModels(t)
	gemini := filepath.Join(t.TempDir(), "gemini")
	require.NoError(t, os.WriteFile(gemini, []byte("#!/bin/sh\necho Invalid auth method selected. >&2\nexit 41\n"), 0o700))
	cmd := f.at(m.URL, f.program("--meter", "--tokens", "5000", "--", gemini, "-p", "x"))
	cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "GEMINI_CLI_HOME=")
	o := f.ended(cmd).must(t, 41)
	assert.Regexp(t, `^watchdog: Gemini CLI calls .* gemini-api-key.*settings\.json\nInvalid auth`,
		strings.ReplaceAll(o.stderr, `"`, " "))
}

// TestMeterUnsent has calls that never reach their API, because a proxy refuses: each may use more than 1,000 tokens,
// so that two of them would be the last. They cost nothing, and the client and the last line say why.
func TestMeterUnsent(t *testing.T) {
	t.Parallel()
	steps := []string{"ask:anthropic", "ask:chat", "ask:responses", "ask:gemini", "exit:4"}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	host := proxy.Listener.Addr().String()
	cause := "no answer from api.example: the proxy " + host + " refused the connection: 407 Proxy Authentication Required"
	last := "4 of the command's calls failed, the first because: " + cause
	f := newFixture(t)
	cmd := func(flags string, steps ...string) *exec.Cmd {
		cmd := f.at("https://api.example", f.cmd("--meter --tokens 1500 "+flags, f.child(steps...)...))
		cmd.Env = append(cmd.Env, "HTTPS_PROXY=http://user:"+keyCanary+"@"+host)
		return cmd
	}
	t.Run("and the command ends by itself", func(t *testing.T) {
		o := f.ended(cmd("", steps...)).must(t, 4)
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
		o := f.ended(cmd("--json", steps...)).must(t, 4)
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
		o := f.ended(cmd("--no-output 3s", append(steps[:4:4], "stay")...)).must(t, 124)
		assert.Regexp(t, "^watchdog: .*: ended by SIGINT; "+regexp.QuoteMeta(last)+"\n$", o.stderr)
	})
}
