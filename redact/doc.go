// Package redact removes what looks like a credential from a command's output before it is kept. It is its own
// module, so that a host that keeps no output never has the module of the patterns in its go.mod.
//
// # Use
//
//	redactor, err := redact.New()
//	...
//	redactor, err = redactor.Also(os.Getenv("DEPLOY_TOKEN"))
//	...
//	config.Tail = &stall.Tail{Bytes: 64 << 10, Redact: redactor.Bytes}
//
// A credential becomes [REDACTED:aws-access-token], with the name of the pattern that found it. A secret of
// [Redactor.Also] becomes [REDACTED:named].
//
// # The patterns
//
// The patterns are those of gitleaks (github.com/zricethezav/gitleaks/v8), as it ships them. They know some 220 kinds
// of credentials: keys and tokens of services, private keys, JSON web tokens, and random text after a word such as
// api_key, token or password. They also look into text encoded as base64, hex or percent signs. If they find a
// credential once, the package removes it everywhere in the same bytes. It ignores comments that tell gitleaks to
// skip a line, and it applies patterns for certain file names to all output.
//
// The package adds what a tail needs: if a private key lost its beginning or its end, the remaining part is removed
// too. And it adds what people and programs write around a secret, because a password can be a word that no pattern
// knows:
//
//   - url-password: the password in a URL with a user, such as postgres, mongodb, redis and https
//   - authorization: what follows Authorization, Bearer and Basic
//   - cookie: the values of Cookie and Set-Cookie
//   - password-flag: --password X, --api-token=X and the like, also in a list of arguments; -pX of mysql, sshpass and
//     mongo, docker login -p, redis-cli -a, curl -u, and a few more, known by the name of the program on the same line
//   - password: DB_PASSWORD=words, "password": "..." in JSON, YAML and connection strings, .netrc, SQL and XML
//   - token: the same for secrets, tokens and keys. In the environment any value counts, such as APP_SECRET=words,
//     elsewhere only one with letters and digits
//   - signature: sig=, X-Amz-Signature and X-Goog-Signature
//
// Variables, stars, words such as none and null, and paths are left where a secret could be.
//
// # What it costs
//
// New compiles the patterns once, in some tens of milliseconds and 14 MiB. The redactors that [Redactor.Also] makes
// share them. Redacting 64 KiB takes some tens of milliseconds, or some hundreds if the text is mostly credentials.
// So use it for the end of an output, not for all of it, and not where time matters. The benchmarks of the package
// measure both.
//
// # What it does not do
//
// The package cannot prove that no credential is left. It does not see:
//   - a password without a name, a flag or a URL around it, such as one that is piped into a program, the fields of
//     .pgpass and /etc/shadow, and user/password@host
//   - a password of fewer than 3 characters, and one that is a word such as none, secret or password
//   - a word after "password:" in a sentence or in YAML without quotes, if it has no digit
//   - a token without a digit outside of the environment, and a key whose name ends with key alone
//   - the part of a URL's password after a slash, a question mark or a number sign that was not escaped
//   - the short flag of a program that the package does not know, or in a list such as ["mysql", "-p..."]
//   - examples that gitleaks knows to be harmless (AKIAIOSFODNN7EXAMPLE)
//   - the rest of a token that lost its beginning, and of a value that lost its name
//   - a credential that is wrapped over two lines, compressed, encrypted or in UTF-16
//   - a kind of credential without a pattern
//
// It has no writer: it works on the bytes that it is given, which can begin and end anywhere.
//
// Name what must never be kept with [Redactor.Also], which does not see it encoded either. What is not kept at all
// needs no redaction.
//
// The package writes and logs nothing. It leaves the logger of gitleaks (its package logging) as it is: if a host
// lowers its level to debug or trace, gitleaks logs there what it finds.
package redact
