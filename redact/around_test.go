package redact_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/redact"
)

// words are what people make passwords of, and what output is made of.
var words = strings.Fields("correct horse battery staple monkey dragon summer winter orange purple silver thunder " +
	"window garden planet rocket coffee butter")

func pick(r *rand.Rand, all []string) string { return all[r.IntN(len(all))] }

// password invents one as people do: a word, words, or random characters.
func password(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return pick(r, words) + pick(r, words)
	case 1:
		return pick(r, words) + fmt.Sprint(r.IntN(1000)) + "!"
	case 2:
		return pick(r, words) + "-" + pick(r, words) + "-" + pick(r, words)
	default:
		return random(r, letters, 12+r.IntN(12))
	}
}

// A kind writes an invented secret as programs do. The names of what holds it are put together, for the scanners.
type kind struct {
	name  string
	write func(r *rand.Rand) (secret, line string)
}

// plain is a kind with the secret in one place of a format.
func plain(name, format string, secret func(*rand.Rand) string) kind {
	format = strings.ReplaceAll(format, "~", "")
	return kind{name, func(r *rand.Rand) (string, string) {
		s := secret(r)
		return s, fmt.Sprintf(format, s)
	}}
}

func long(r *rand.Rand) string   { return random(r, letters, 32) }
func hexes(r *rand.Rand) string  { return random(r, "0123456789abcdef", 64) }
func phrase(r *rand.Rand) string { return pick(r, words) + " " + pick(r, words) + " " + pick(r, words) }

// kinds are 40 kinds of secrets. A ~ in a format is left out.
var kinds = []kind{
	plain("postgres", "dial postgres://app:~%s@db.example.com:5432/app?sslmode=disable failed", password),
	plain("postgresql", "DATABASE_URL=postgresql+asyncpg://app:~%s@10.0.0.7/app", password),
	plain("mysql", "mysql://root:~%s@127.0.0.1:3306/shop: connection refused", password),
	plain("mongodb", `uri="mongodb+srv://svc:~%s@cluster0.example.net/?retryWrites=true"`, password),
	plain("redis", "redis://:~%s@cache:6379/0 NOAUTH", password),
	plain("amqp", "amqps://guest:~%s@mq:5671/vhost timed out", password),
	plain("https", "fatal: unable to access 'https://ci:~%s@git.example.com/a/b.git/'", password),
	plain("proxy", "http_proxy=http://me:~%s@proxy:3128", password),
	{"escaped URL", func(r *rand.Rand) (string, string) {
		s := url.QueryEscape(password(r) + "/#" + random(r, letters, 4))
		return s, "postgres://u:" + s + "@h/db"
	}},
	plain("bearer", "> Authorization: Bea~rer %s", long),
	plain("bearer in curl", `curl -H "Authorization: Bea~rer %s" https://api.example.com`, hexes),
	plain("bearer in JSON", `{"headers":{"authorization":"Bea~rer %s"}}`, long),
	{"basic", func(r *rand.Rand) (string, string) {
		s := base64.StdEncoding.EncodeToString([]byte("admin:" + password(r)))
		return s, "authorization: Ba" + "sic " + s
	}},
	plain("proxy authorization", "Proxy-Authorization: Bea~rer %s", long),
	plain("flag", "+ deploy --user ci --pass~word %s --wait", password),
	plain("flag with a sign", "exec: app --pass~word=%s --verbose", password),
	plain("flag with quotes", "app --db-pass~word '%s' serve", phrase),
	plain("flag of a token", "helm install x --api-to~ken %s", long),
	plain("flag in a list", `args: ["app", "--to~ken", "%s"]`, long),
	plain("mysql -p", "+ mysql -h db -u root -p~%s shop -e 'select 1'", password),
	plain("mysqldump -p", "/usr/bin/mysqldump -uroot -p~'%s' --all-databases", password),
	plain("sshpass -p", "sshpass -p %s ssh root@10.0.0.1", password),
	plain("docker login -p", "docker login -u ci -p %s registry.example.com", password),
	plain("redis-cli -a", "redis-cli -h cache -a %s ping", password),
	plain("curl -u", "curl -sS -u ci:~%s https://api.example.com/v1", password),
	plain("sig", "https://acc.blob.example.net/c/f?sv=2024-01-01&se=2026-01-01T00%%3A00%%3A00Z&sp=r&si~g=%s", func(r *rand.Rand) string {
		return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(random(r, letters, 32))))
	}),
	plain("X-Amz-Signature", "GET https://b.s3.example.com/k?X-Amz-Date=20260101T000000Z&X-Amz-Sig~nature=%s&x-id=GetObject", hexes),
	plain("X-Goog-Signature", "https://storage.example.com/b/o?X-Goog-Expires=900&X-Goog-Sig~nature=%s", hexes),
	plain("cookie", "Coo~kie: sid=%s; theme=dark", long),
	plain("set-cookie", "< Set-Coo~kie: session=%s; Path=/; HttpOnly; Secure", long),
	plain("PASSWORD=words", "DB_PASS~WORD=%s", phrase),
	plain("PASSWORD=", "export MYSQL_ROOT_PASS~WORD=%s", password),
	plain("PGPASSWORD", "+ PGPASS~WORD=%s psql -h db", password),
	plain("PASSWORD in quotes", `ADMIN_PASS~WORD="%s"`, phrase),
	plain("SECRET=", "CLIENT_SEC~RET=%s", password),
	plain("JSON", `{"user":"app","pass~word":"%s","port":5432}`, phrase),
	plain("JSON in a text", `msg="{\"user\":\"app\",\"db_pass~word\":\"%s\"}"`, password),
	plain("connection string", "Server=db;Database=app;User Id=sa;Pass~word=%s;Encrypt=true", password),
	plain("netrc", "machine api.example.com login ci pass~word %s", password),
	plain("SQL", "ERROR near: CREATE USER app IDENTIFIED BY '%s'", password),
}

// planted makes some of each kind.
func planted(seed uint64, each int) (secrets, lines []string) {
	r := rand.New(rand.NewPCG(seed, 11))
	for _, k := range kinds {
		for range each {
			secret, line := k.write(r)
			secrets, lines = append(secrets, secret), append(lines, line)
		}
	}
	return secrets, lines
}

// leaks reports whether a secret, or a good part of its end, is left.
func leaks(got, secret string) bool {
	return strings.Contains(got, secret) || strings.Contains(got, secret[len(secret)/2:])
}

// TestPlanted plants 200 secrets of 40 kinds, each by itself and all together, and expects at most 2 % to be missed.
func TestPlanted(t *testing.T) {
	require.Len(t, kinds, 40)
	r := newRedactor(t)
	seeds := uint64(5)
	if racing {
		seeds = 1
	}
	for seed := range seeds {
		secrets, lines := planted(seed, 5)
		require.Len(t, secrets, 200)
		together := string(r.Bytes([]byte("begin\n" + strings.Join(lines, "\n") + "\nend\n")))
		var missed, missedTogether []string
		for i, secret := range secrets {
			if leaks(string(r.Bytes([]byte(lines[i]))), secret) {
				missed = append(missed, lines[i])
			}
			if leaks(together, secret) {
				missedTogether = append(missedTogether, lines[i])
			}
		}
		t.Logf("seed %d: %d and %d of 200 missed %q", seed, len(missed), len(missedTogether), missed)
		require.LessOrEqual(t, len(missed), 4, "%q", missed)
		require.LessOrEqual(t, len(missedTogether), 4, "%q", missedTogether)
	}
}

// lookAlikes are kinds of output that are like a secret. What is in braces is drawn anew, see lookAlike.
var lookAlikes = []string{
	"github.com/{word}/{word} v1.{n}.0/go.mod h1:{base64 32}",
	"request_id={uuid} done",
	`{"trace":"{uuid}","span":"{hex 16}"}`,
	"commit {hex 40}",
	"{hex 9} Merge branch '{word}-{word}'",
	"sha256:{hex 64} pulled",
	"{hex 64}  dist/app_linux_amd64.tar.gz",
	`<img src="data:image/png;base64,iVBORw0KGgo{base64 90}">`,
	"{base64 57}", // a line of an image
	"GET https://{word}.example.com:8443/v1/{word}?page={n}&q=a@b.c 200",
	"postgres://{word}@db.example.com:5432/app?sslmode=disable",
	"git clone ssh://git@git.example.com:2222/{word}.git",
	"redis://cache:6379/0, http://localhost:8080/@{word}/x",
	"docker run -p8080:80 -p 127.0.0.1:5432:5432 mysql:8 --name {word}",
	"mkdir -p /var/lib/mysql && ssh -p 2222 {word}@host",
	"cp -pr src dst; nc -l -p8080; mysql -P3306 -h {word} -u root shop",
	"login --password-stdin --password-file /run/secrets/{word}",
	"the --password flag is required by {word}",
	"--max-tokens 4096 --token-ttl=30m --pass-through --no-password --secret-name {word}",
	"PASSWORD_FILE=/run/secrets/{word} PWD=/home/ci/{word}",
	"DB_PASSWORD=${DB_PASSWORD} API_TOKEN=$API_TOKEN x={word}",
	"password: ******** token: <redacted> for {word}",
	"password: incorrect for user {word}",
	`{"password":null,"token":"EOF","secret":"{word}-tls","has_password":true}`,
	"unexpected token: {word}, next token=IDENT at 12:{n}",
	"tests pass={n} fail=0 tokens={n}",
	"secretKeyRef: name: {word} key: password",
	"Authorization: required; see Basic authentication and bearer certificates of {word}",
	"cookie: disabled by {word}, Cookie policy = strict",
	"{time} INFO {word} took 1.25s",
	"goroutine {n} [chan receive, 5 minutes]:",
	"\t/root/go/pkg/mod/golang.org/x/sync@v0.{n}.0/errgroup/errgroup.go:{n} +0x{hex 8}",
	"main.(*Token).validatePassword(0xc000{hex 6}, {0xc000{hex 6}, 0x{hex 2}})",
	"\tat com.example.{word}.PasswordTokenAuthenticationProviderFactory.authenticate(Auth.java:{n})",
	"func getAccessTokenFromRefreshTokenWithRetryAndBackoffFor{WORD}()",
	`password := os.Getenv("DB_PASSWORD"); token = getToken({word})`,
	`"integrity": "sha512-{base64 64}",`,
	"registry.example.com/{word}@sha256:{hex 64} linux/amd64",
	"2001:db8::{hex 4} MAC 0a:1b:2c:3d:4e:{hex 2} port 443",
	"signature=valid sig=ok design={word} compass=north",
}

var drawn = regexp.MustCompile(`\{(word|WORD|n|uuid|time|hex|base64)(?: (\d+))?\}`)

func lookAlike(r *rand.Rand, format string) string {
	return drawn.ReplaceAllStringFunc(format, func(what string) string {
		match := drawn.FindStringSubmatch(what)
		size, _ := strconv.Atoi(match[2])
		switch match[1] {
		case "word":
			return pick(r, words)
		case "WORD":
			return strings.ToTitle(pick(r, words))
		case "n":
			return fmt.Sprint(r.IntN(9999))
		case "uuid":
			text := hexes(r)
			return strings.Join([]string{text[:8], text[8:12], "4" + text[13:16], "a" + text[17:20], text[20:32]}, "-")
		case "time":
			return time.Unix(r.Int64N(2e9), 0).UTC().Format(time.RFC3339Nano)
		case "hex":
			return hexes(r)[:size]
		}
		raw := make([]byte, size)
		for i := range raw {
			raw[i] = byte(r.IntN(256))
		}
		return base64.StdEncoding.EncodeToString(raw)
	})
}

// TestLookAlikes expects at most 1 % of 1,000 lines that are like a secret to be touched.
func TestLookAlikes(t *testing.T) {
	redactor := newRedactor(t)
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 13))
		var touched []string
		for i := range 1000 {
			line := lookAlike(r, lookAlikes[i%len(lookAlikes)])
			if got := string(redactor.Bytes([]byte(line))); got != line {
				touched = append(touched, line+"  ->  "+got)
			}
		}
		t.Logf("seed %d: %d of 1000 touched:\n%s", seed, len(touched), strings.Join(touched, "\n"))
		require.LessOrEqual(t, len(touched), 10)
	}
}

// TestAround compares whole lines, so that no more is removed than the secret.
func TestAround(t *testing.T) {
	r := newRedactor(t)
	for sentence, test := range map[string][2]string{
		"a password with an @":        {"redis://u:p@ss@h:1/0", "redis://u:[REDACTED:url-password]@h:1/0"},
		"two hosts":                   {"mongodb://u:hunter2@a:1,b:2/d", "mongodb://u:[REDACTED:url-password]@a:1,b:2/d"},
		"a port":                      {"https://h:8080/a:b@c", "https://h:8080/a:b@c"},
		"a user alone":                {"ssh://git@h:22/x", "ssh://git@h:22/x"},
		"a URL that is cut":           {"redis://u:hunter2", "redis://u:[REDACTED:url-password]"},
		"a port that is cut":          {"redis://h:637", "redis://h:637"},
		"a template in a URL":         {"redis://u:${PW}@h", "redis://u:${PW}@h"},
		"a list of headers":           {`{"Set-Cookie":["a=b1; Path=/"]}`, `{"Set-Cookie":["a=[REDACTED:cookie]; Path=/"]}`},
		"code with cookies":           {"for _, cookie := range all() {", "for _, cookie := range all() {"},
		"code with a name":            {`theEncodedUserPassword: "theEncodedUserPassword"`, `theEncodedUserPassword: "theEncodedUserPassword"`},
		"code with a format":          {`"pass=%#v, x"`, `"pass=%#v, x"`},
		"code that puts it together":  {`"PASSWORD=" + canary}, x`, `"PASSWORD=" + canary}, x`},
		"code with an index":          {"l.password = f[i+1]", "l.password = f[i+1]"},
		"code with a part":            {"sig := key[4+length42:]", "sig := key[4+length42:]"},
		"a path in quotes":            {`Get "http://h/password": dummy x`, `Get "http://h/password": dummy x`},
		"a number in JSON":            {`{"password": 481516}`, `{"password": [REDACTED:password]}`},
		"a key":                       {"PRIVATE_KEY=abc-def", "PRIVATE_KEY=[REDACTED:token]"},
		"a challenge":                 {`WWW-Authenticate: Basic realm="x"`, `WWW-Authenticate: Basic realm="x"`},
		"a kind of token":             {"token_type=bearer expires_in=3600", "token_type=bearer expires_in=3600"},
		"words of the environment":    {"A_PASSWORD=a few words\nB=1", "A_PASSWORD=[REDACTED:password]\nB=1"},
		"a variable before a command": {"A_PASSWORD=hunter2 ./run -v", "A_PASSWORD=[REDACTED:password] ./run -v"},
		"the working directory":       {"PWD=/work OLDPWD=/", "PWD=/work OLDPWD=/"},
		"a file":                      {"DB_PASSWORD=/run/secrets/db", "DB_PASSWORD=/run/secrets/db"},
		"a sentence":                  {"password: correct horse", "password: correct horse"},
		"a flag in a sentence":        {"set the --password flag", "set the --password flag"},
		"a port after a password":     {"mysql -phunter2 -P3306", "mysql -p[REDACTED:password-flag] -P3306"},
		"a port of a container":       {"docker run -p8080:80 mysql", "docker run -p8080:80 mysql"},
		"a later program":             {"mysql -e x | tee -pX123", "mysql -e x | tee -pX123"},
		"a prompt for a password":     {"mysql -u root -p shop", "mysql -u root -p shop"},
		"again without its name": {
			"PASSWORD=hunter2-x1\nlogin hunter2-x1", "PASSWORD=[REDACTED:password]\nlogin [REDACTED:password]",
		},
		"a word again": {"PASSWORD=monkey\nmonkey business", "PASSWORD=[REDACTED:password]\nmonkey business"},
	} {
		t.Run(sentence, func(t *testing.T) {
			require.Equal(t, test[1], string(r.Bytes([]byte(test[0]))))
		})
	}
}

// TestPlantedIsStable expects redacting again to change nothing.
func TestPlantedIsStable(t *testing.T) {
	r := newRedactor(t)
	_, lines := planted(9, 2)
	for _, line := range lines {
		once := r.Bytes([]byte(line))
		require.Equal(t, string(once), string(r.Bytes(once)), line)
	}
}

// TestPlantedCut cuts each line at every byte of its secret: of what is left before the cut, no long part is kept.
func TestPlantedCut(t *testing.T) {
	const keep = 12
	r := newRedactor(t)
	secrets, lines := planted(3, 1)
	var left []string
	cuts := 0
	for i, secret := range secrets {
		at := strings.Index(lines[i], secret)
		for n := keep; n < len(secret); n++ {
			cuts++
			if got := string(r.Bytes([]byte(lines[i][:at+n]))); strings.Contains(got, secret[:n]) {
				left = append(left, lines[i][:at+n])
			}
		}
	}
	t.Logf("%d of %d cuts leave a part: %q", len(left), cuts, left)
	require.LessOrEqual(t, len(left), cuts/50)
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		_, err := redact.New()
		require.NoError(b, err)
	}
}

func BenchmarkBytes(b *testing.B) {
	const line = "2026-01-01T00:00:00Z INFO waiting for resource foo/bar to be ready, attempt 12 of 99 (key: value)\n"
	r := newRedactor(b)
	for _, size := range []int{1 << 10, 64 << 10} {
		plain := strings.Repeat(line, size/len(line)+1)[:size]
		var leaks strings.Builder
		for seed := uint64(0); leaks.Len() < size; seed++ {
			for _, c := range canaries(seed) {
				leaks.WriteString(c.line + "\n")
			}
		}
		for name, text := range map[string]string{"plain": plain, "credentials only": leaks.String()[:size]} {
			b.Run(name+"/"+strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					r.Bytes([]byte(text))
				}
			})
		}
	}
}

func TestAlso(t *testing.T) {
	const secret = "correct horse battery"
	r, err := newRedactor(t).Also(secret, "", "tiny", "horse\nback")
	require.NoError(t, err)
	for name, test := range map[string]struct{ text, want string }{
		"anywhere": {
			"a correct horse battery and\ncorrect horse battery", "a [REDACTED:named] and\n[REDACTED:named]",
		},
		"inside a word":                  {"xcorrect horse batteryx", "x[REDACTED:named]x"},
		"over lines":                     {"a horse\nback", "a [REDACTED:named]"},
		"cut at its beginning":           {"horse battery staple", "[REDACTED:named] staple"},
		"cut at its end":                 {"is correct hor", "is [REDACTED:named]"},
		"the fewest bytes at its end":    {"tery staple", "[REDACTED:named] staple"},
		"the fewest bytes at its start":  {"is corr", "is [REDACTED:named]"},
		"too few bytes at the beginning": {"ery staple", "ery staple"},
		"too few bytes at the end":       {"is cor", "is cor"},
		"one after the other":            {"tinytinytiny", "[REDACTED:named]"},
		"not in another case":            {"Correct Horse Battery", "Correct Horse Battery"},
		"next to invalid UTF-8":          {"\xfftiny\xff", "\xff[REDACTED:named]\xff"},
		"shorter than the text":          {"tin", "tin"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, string(r.Bytes([]byte(test.text))))
		})
	}
}

// TestAlsoWithPattern checks that a named secret is removed whole if a pattern finds a part of it too.
func TestAlsoWithPattern(t *testing.T) {
	token := canaries(1)["a GitHub token"].secret
	for name, secret := range map[string]string{
		"it holds the credential":   "x:" + token + "@host",
		"it overlaps its beginning": "x:" + token[:20],
		"it overlaps its end":       token[20:] + "@host",
		"it is within":              token[10:20],
		"it is just the credential": token,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := newRedactor(t).Also(secret)
			require.NoError(t, err)
			got := string(r.Bytes([]byte("see https://x:" + token + "@host for it")))
			require.Equal(t, 1, strings.Count(got, "[REDACTED:"), got)
			require.NotContains(t, got, token[:5])
			require.NotContains(t, got, token[len(token)-5:])
			require.Regexp(t, `^see https://(x:)?\[REDACTED:[a-z-]+\](@host)? for it$`, got)
		})
	}
}

// TestAlsoReceiver checks that Also does not change its receiver.
func TestAlsoReceiver(t *testing.T) {
	first, err := newRedactor(t).Also("first secret")
	require.NoError(t, err)
	second, err := first.Also("second secret")
	require.NoError(t, err)

	text := []byte("first secret, second secret")
	require.Equal(t, "[REDACTED:named], second secret", string(first.Bytes(text)))
	require.Equal(t, "[REDACTED:named], [REDACTED:named]", string(second.Bytes(text)))
	require.Equal(t, string(text), string(newRedactor(t).Bytes(text)))
}

func TestShortSecret(t *testing.T) {
	_, err := newRedactor(t).Also("long enough", "pin")
	require.ErrorIs(t, err, redact.ErrShortSecret)
	require.ErrorContains(t, err, "number 2 of 2 has 3 bytes")
	require.NotContains(t, err.Error(), "pin")
}
