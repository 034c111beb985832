package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/viper"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/redact"
)

// shared is made once, because the patterns take a while to compile.
var shared = sync.OnceValues(redact.New)

func newRedactor(tb testing.TB) *redact.Redactor {
	tb.Helper()
	r, err := shared()
	require.NoError(tb, err)
	return r
}

func TestBytes(t *testing.T) {
	r := newRedactor(t)
	for name, c := range canaries(1) {
		t.Run(name, func(t *testing.T) {
			input := []byte("before it\n" + c.line + "\nafter it\n")
			kept := bytes.Clone(input)
			got := string(r.Bytes(input))
			assert.NotContains(t, got, c.secret)
			assert.Equal(t, 1, strings.Count(got, "[REDACTED:"), got)
			assert.Contains(t, got, "[REDACTED:"+c.rule+"]")
			assert.True(t, strings.HasPrefix(got, "before it\n"), got)
			// A pattern for wrapped text takes the next word as a part of it.
			assert.True(t, strings.HasSuffix(got, " it\n"), got)
			assert.Equal(t, kept, input, "the input is not changed")
		})
	}
}

func TestNotRemoved(t *testing.T) {
	r := newRedactor(t)
	cut := canaries(1)["a GitHub token"].secret[8:]
	for name, text := range map[string]string{
		"nothing":                       "",
		"plain output":                  "2026-01-01T00:00:00Z INFO waiting for crd/widgets.example.com, attempt 12 of 99\n",
		"a word as a password":          "password: correct horse",
		"a password without context":    "hunter2-Zk81\n",
		"a random text without context": canaries(1)["a generic key"].secret,
		"a token cut at its beginning":  cut,
		"a token over two lines":        "gh" + "p_0123456789abcdef\n0123456789abcdefghij",
		"an example":                    "AK" + "IAIOSFODNN7EXAMPLE",
		"a key that is only mentioned":  "expected -----BEGIN PRIVATE KEY----- but got EOF\nand went on\n",
		"invalid UTF-8":                 "\x00\x01\xff\xfe" + strings.Repeat("\x80\xbf", 20),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, text, string(r.Bytes([]byte(text))))
		})
	}
}

// TestEverywhere checks that a credential found once is removed everywhere.
func TestEverywhere(t *testing.T) {
	secret := canaries(1)["a generic key"].secret
	got := newRedactor(t).Bytes([]byte("using " + secret + "\napi_key=" + secret + "\nagain: x" + secret + "y"))
	const redacted = "[REDACTED:generic-api-key]"
	require.Equal(t, "using "+redacted+"\napi_key="+redacted+"\nagain: x"+redacted+"y", string(got))
}

// TestBase64 checks that a token in base64 is removed on any line.
func TestBase64(t *testing.T) {
	c := canaries(1)["a token in base64"]
	for name, text := range map[string]string{
		"the first":                           c.line + "\nsecond\n",
		"the only, without a break":           c.line,
		"the second":                          "first\n" + c.line + "\n",
		"the second, after an empty one":      "\n" + c.line + "\nthird",
		"the third, after two empty ones":     "\n\n" + c.line + "\n",
		"the last, without a break":           "first\nsecond\n" + c.line,
		"the last, without a break, after \r": "first\r\nsecond\r\n" + c.line,
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.ReplaceAll(text, c.secret, "[REDACTED:gitlab-pat]")
			require.Equal(t, want, string(newRedactor(t).Bytes([]byte(text))))
		})
	}
}

// TestEncodedNextLine checks that an encoded secret is removed on the line after its name.
func TestEncodedNextLine(t *testing.T) {
	var encoded strings.Builder
	for _, c := range []byte(canaries(1)["a generic key"].secret) {
		fmt.Fprintf(&encoded, "%%%02x", c)
	}
	for name, after := range map[string]string{"with a break": "\n", "without": ""} {
		t.Run(name, func(t *testing.T) {
			got := string(newRedactor(t).Bytes([]byte("first\npassword:\n" + encoded.String() + after)))
			require.Regexp(t, `^first\n(password:\n)?\[REDACTED:generic-api-key\]\n?$`, got)
		})
	}
}

func TestPrivateKeyParts(t *testing.T) {
	key := canaries(1)["a private key"]
	oneLine := strings.ReplaceAll(key.line, "\n", `\n`)
	for name, test := range map[string]struct{ text, want string }{
		"without its beginning": {key.line[200:] + "\nafter\n", "[REDACTED:private-key]\nafter\n"},
		"without its end":       {"before\n" + key.line[:300], "before\n[REDACTED:private-key]"},
		"its first line alone":  {"before\n" + begin, "before\n[REDACTED:private-key]"},
		"one half after the other": {
			key.line[200:] + "\n" + key.line[:300], "[REDACTED:private-key]\n[REDACTED:private-key]",
		},
		"in a string, without its end": {`{"key":"` + oneLine[:300], `{"key":"[REDACTED:private-key]`},
		"broken off by another": {
			key.line[:300] + "\n" + key.line + "\nafter\n", "[REDACTED:private-key]\nafter\n",
		},
		"whole, after one was mentioned": {
			"no " + begin + " in it\n" + key.line + "\nafter\n", "no [REDACTED:private-key]\nafter\n",
		},
		"without a beginning, after others": {
			"before\n" + key.line + "\nand\n" + key.line[200:] + "\nafter\n",
			"before\n[REDACTED:private-key]\nafter\n",
		},
		"whole, on one line": {
			"key: " + strings.ReplaceAll(key.line, "\n", " ") + " after", "key: [REDACTED:private-key] after",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(newRedactor(t).Bytes([]byte(test.text)))
			require.Equal(t, test.want, got)
		})
	}
}

// TestCanaries plants some of each kind among text, binary output and invalid UTF-8, and checks that none is left.
func TestCanaries(t *testing.T) {
	redactor := newRedactor(t)
	seeds := uint64(20)
	if racing {
		seeds = 2
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 2))
		var input strings.Builder
		var planted []canary
		for range 1 + r.IntN(3) {
			for _, c := range canaries(r.Uint64()) {
				input.WriteString(noise(r) + "\n" + c.line + "\n")
				planted = append(planted, c)
			}
		}
		input.WriteString(noise(r))
		got := redactor.Bytes([]byte(input.String()))
		for _, c := range planted {
			require.NotContains(t, string(got), c.secret, "seed %d, %s", seed, c.rule)
		}
		require.Equal(t, string(got), string(redactor.Bytes(got)), "redacting again changes nothing")
	}
}

func noise(r *rand.Rand) string {
	line := make([]byte, r.IntN(200))
	for i := range line {
		line[i] = byte(r.IntN(256))
	}
	return []string{
		"waiting for the API server (attempt 3)", "\xff\xfe\x00", string(line), "", "-- héllo \xc3",
	}[r.IntN(5)]
}

// TestFailingPatterns has patterns that panic: a Redactor without any removes everything.
func TestFailingPatterns(t *testing.T) {
	require.Equal(t, "[REDACTED:all]", string(new(redact.Redactor).Bytes([]byte("anything"))))
}

func TestConcurrentUse(t *testing.T) {
	base := newRedactor(t)
	var group sync.WaitGroup
	for seed := range uint64(8) {
		group.Go(func() {
			r, err := base.Also("named by this one")
			if !assert.NoError(t, err) {
				return
			}
			for _, c := range canaries(seed) {
				got := string(r.Bytes([]byte(c.line + " named by this one")))
				assert.NotContains(t, got, c.secret)
				assert.NotContains(t, got, "by this")
			}
		})
	}
	group.Wait()
}

// TestHostUnchanged checks that nothing is written, and that the host's viper keeps its settings.
func TestHostUnchanged(t *testing.T) {
	viper.Set("mine", "kept")
	output := capture(t, func() {
		r, err := redact.New()
		if assert.NoError(t, err) {
			for _, c := range canaries(3) {
				r.Bytes([]byte(c.line))
			}
		}
	})
	assert.Empty(t, output, "nothing is written")
	assert.Equal(t, map[string]any{"mine": "kept"}, viper.AllSettings(), "the host's viper is unchanged")
}

// capture returns what was written to the standard output and error meanwhile. The logger of gitleaks has kept
// os.Stderr since the process began, so capture replaces the file behind it.
func capture(t *testing.T, during func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "output")
	require.NoError(t, err)
	defer func() { assert.NoError(t, file.Close()) }()
	stdout, stderr := *os.Stdout, *os.Stderr
	*os.Stdout, *os.Stderr = *file, *file
	during()
	*os.Stdout, *os.Stderr = stdout, stderr
	written, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	return string(written)
}

const (
	upperDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	letters     = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// A canary is an invented credential, and a line of output that shows it. The code puts credentials together so that
// no scanner finds one in this file.
type canary struct {
	secret string
	line   string
	rule   string // the name of what finds it
}

func random(r *rand.Rand, alphabet string, n int) string {
	var text strings.Builder
	for range n {
		text.WriteByte(alphabet[r.IntN(len(alphabet))])
	}
	return text.String()
}

// scattered has no two letters in a row. They could make a word, and gitleaks takes a text with a word for harmless.
func scattered(r *rand.Rand) string {
	var text strings.Builder
	for range 20 {
		text.WriteString(random(r, "bcdfghjklmnpqrstvwxz", 1) + random(r, "0123456789", 1))
	}
	return text.String()
}

// canaries makes one of each kind. Each seed gives other ones.
func canaries(seed uint64) map[string]canary {
	r := rand.New(rand.NewPCG(seed, 7))
	aws := "AK" + "IA" + random(r, upperDigits, 16)
	github := "gh" + "p_" + random(r, letters, 36)
	slack := strings.Join([]string{
		"xo" + "xb", random(r, "123456789", 12), random(r, "123456789", 12), random(r, letters, 24),
	}, "-")
	generic := scattered(r)
	token := jwt(r)
	key := privateKey(r)
	hidden := "gl" + "pat-" + random(r, letters, 20)
	encoded := base64.StdEncoding.EncodeToString([]byte("token: " + hidden + "\n"))
	inHex := hex.EncodeToString([]byte(hidden))
	return map[string]canary{
		"an AWS key":          {aws, "An error occurred with access key " + aws + " in eu-central-1", "aws-access-token"},
		"a GitHub token":      {github, "fatal: unable to access 'https://x:" + github + "@github.com/a/b/'", "github-pat"},
		"a Slack token":       {slack, "slack: invalid_auth for " + slack, "slack-bot-token"},
		"a generic key":       {generic, "api_key=" + generic, "generic-api-key"},
		"a JSON web token":    {token, "Authorization: Bearer " + token, "jwt"},
		"a private key":       {key, begin + "\n" + key + "\n" + end, "private-key"},
		"a token in base64":   {encoded, "data: " + encoded, "gitlab-pat"},
		"a token in hex":      {inHex, "dump " + inHex + " end", "gitlab-pat"},
		"a wrapped token":     wrapped(r),
		"a token in a query":  {hidden[5:], "GET /?t=glp%61t" + hidden[5:] + "&x=1", "gitlab-pat"},
		"a Kubernetes secret": kubernetes(r),
		"a header of curl":    curl(r),
		"an allowed token":    {hidden, "remote: " + hidden + " gitleaks:allow", "gitlab-pat"},
	}
}

const (
	begin = "-----BEGIN RSA PRI" + "VATE KEY-----"
	end   = "-----END RSA PRI" + "VATE KEY-----"
)

func privateKey(r *rand.Rand) string {
	lines := make([]string, 12)
	for i := range lines {
		lines[i] = random(r, letters, 64)
	}
	return strings.Join(lines, "\n")
}

func jwt(r *rand.Rand) string {
	encode := base64.RawURLEncoding.EncodeToString
	header, payload := `{"alg":"HS256","typ":"JWT"}`, `{"sub":"`+random(r, letters, 12)+`"}`
	return encode([]byte(header)) + "." + encode([]byte(payload)) + "." + random(r, letters, 43)
}

// wrapped is a JSON web token in base64, as the command base64 prints it. Only a pattern that matches both lines can
// find the second one.
func wrapped(r *rand.Rand) canary {
	encoded := base64.StdEncoding.EncodeToString([]byte(jwt(r)))
	return canary{encoded[76:], encoded[:76] + "\n" + encoded[76:], "jwt-base64"}
}

func kubernetes(r *rand.Rand) canary {
	secret := base64.StdEncoding.EncodeToString([]byte(random(r, letters, 24)))
	return canary{secret, "kind: Secret\nmetadata:\n  name: db\ndata:\n  password: " + secret, "kubernetes-secret-yaml"}
}

func curl(r *rand.Rand) canary {
	secret := random(r, letters, 24)
	return canary{secret, "+ curl -H 'Authorization: Token " + secret + "' https://api.example.com", "curl-auth-header"}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzBytes checks for any bytes that no pattern fails, the size of the result is bounded, and a named secret is gone.
func FuzzBytes(f *testing.F) {
	for _, c := range canaries(1) {
		f.Add([]byte(c.line))
		f.Add([]byte("\n\n" + c.line + "\n"))
		f.Add([]byte(c.line + c.line[len(c.line)/2:]))
	}
	f.Add([]byte("%61%70%69_key=%41%4b\xff\n6768705f"))
	_, lines := planted(1, 1)
	for _, line := range lines {
		f.Add([]byte(line))
	}
	const secret = "canary-in-the-mine"
	r, err := newRedactor(f).Also(secret)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, p []byte) {
		p = slices.Concat(p, []byte(secret), p)
		got := r.Bytes(p)
		require.NotContains(t, string(got), secret)
		require.NotEqual(t, "[REDACTED:all]", string(got), "a pattern failed")
		require.LessOrEqual(t, len(got), 16*len(p))
		require.False(t, len(got) > 0 && bytes.Equal(got, p))
	})
}

// FuzzPlanted checks that a planted secret is removed whatever lines are around its own.
func FuzzPlanted(f *testing.F) {
	f.Add(uint64(1), []byte(`{"pass`+`word":"`), []byte(`"}`))
	f.Add(uint64(2), []byte("mysql -p'"), []byte("'"))
	f.Add(uint64(3), []byte("Coo"+"kie: a='b\n-----BEGIN PRI"+"VATE KEY-----"), []byte("\xff@host"))
	redactor := newRedactor(f)
	f.Fuzz(func(t *testing.T, seed uint64, before, after []byte) {
		secrets, lines := planted(seed, 1)
		i := int(seed % uint64(len(lines)))
		got := string(redactor.Bytes(slices.Concat(before, []byte("\n"+lines[i]+"\n"), after)))
		require.NotContains(t, strings.ReplaceAll(got, string(before), ""), secrets[i])
	})
}
