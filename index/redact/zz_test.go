package redact_test

import (
	"strings"
	"testing"

	"github.com/deja-node/deja/index/redact"
)

func TestZZ(t *testing.T) {
	rng := newRand(t)
	s := redact.New(redact.Options{})
	un := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t")
	for _, c := range strings.Split(strings.TrimSpace(`
пароль - ‹pw›
Пароль: "‹pw›"
пароль для входа: ‹word›
мой пароль ‹pw› никому не говори
ПАРОЛЬ=‹pw›
ключ доступа: ‹an24›
ключ API: ‹an24›
API-ключ: ‹an24›
секрет: ‹pw›
токен доступа — ‹an32›
логин admin пароль ‹word›
логин/пароль: admin/‹pw›
кодовое слово: ‹pw›
парольная фраза: ‹pw›
密码: ‹pw›
密码=‹word›
密码为‹pw›。
登录密码：‹word›，用户名 bob
访问密钥：‹an32›
令牌：‹an32›
口令是‹word›
密碼：‹pw›
パスワード: ‹word›
パスワード=‹pw›
パスワードは‹pw›です。
秘密鍵：‹an32›
APIキー：‹an32›
비밀번호는 ‹pw› 입니다
비밀번호=‹word›
암호: ‹pw›
contraseña = ‹pw›
Contraseña: "‹pw›"
la clave de la wifi es ‹word›
clave secreta: ‹an24›
Mot de passe: ‹pw›
le mot de passe est ‹pw›
mot_de_passe=‹word›
Passwort = ‹word›
das Passwort lautet ‹pw›
Kennwort: ‹word›
Zugangsdaten: admin / ‹pw›
geheimnis: ‹pw›
senha=‹word›
a senha é ‹pw›
hasło = ‹word›
parola: ‹word›
la password è ‹pw›
wachtwoord: ‹word›
lösenord: ‹word›
şifre: ‹word›
mật khẩu: ‹pw›
كلمة المرور: ‹pw›
סיסמה: ‹pw›
पासवर्ड: ‹pw›
รหัสผ่าน: ‹pw›
κωδικός: ‹pw›
heslo: ‹word›
jelszó: ‹word›
salasana: ‹word›
kata sandi: ‹word›
machine x login y password ‹word› port 22
default login anonymous password ‹word›
Cookie: _session_id=‹h32›; path=/
Set-Cookie: __Host-sess=‹t43›; Path=/; Secure
cookie: JSESSIONID=‹u32›.node1; lang=de
Cookie: laravel_session=‹b80›%3D
cookies = {"sessionid": "‹l32›"}
"Cookie": "token=‹an32›"
-b 'sid=‹an26›'
curl --cookie 'JSESSIONID=‹u32›' http://h
#HttpOnly_.x.net\tFALSE\t/\tTRUE\t0\tauth\t‹h40›
localhost:5432:*:postgres:‹word›
*:*:*:svc:‹pw›
bob:‹$6${an16}${an86}›:19700:0:99999:7:::
bob:‹$apr1${an8}${an22}›
_auth=‹b32›
//registry.x/:_password=‹b24›
registry-token = "‹an36›"
[client]\nuser=root\npassword=‹pw›
password "‹pw›"
masterauth ‹pw›
ansible_ssh_pass=‹word›
ansible_password: ‹pw›
wpa_passphrase=‹word›
psk="‹pw›"
AUTH ‹word›
smtp_pass: ‹word›
MAIL_PASSWORD=‹pw›
export GH_TOKEN=‹h40›
STRIPE_KEY=‹an32›
OPENAI_KEY=‹an40›
SLACK_SIGNING_SECRET=‹h32›
SENTRY_DSN=https://‹h32›@o1.ingest.sentry.io/2
NEXTAUTH_SECRET=‹b44›
APP_KEY=base64:‹b43›=
RAILS_MASTER_KEY=‹h32›
SESSION_SECRET="‹an32›"
COOKIE_SECRET=‹h64›
PGPASSWORD='‹pw›' pg_dump
mysqldump -u root --password='‹pw›' db
mysql --user=root --password ‹pw›
mysql -h h -u root -p"‹pw›" db
mongo "mongodb://u:‹pw›@h/db"
docker login -u x --password ‹pw›
docker login -p "‹pw›" -u x
curl -X POST -d 'user=bob&password=‹pw›' http://x
curl -d '{"password":"‹pw›"}' http://x
curl --data-urlencode "token=‹an32›" http://x
curl -H 'Authorization: token ‹h40›' http://x
curl -H "PRIVATE-TOKEN: ‹t20›" http://x
wget --user=bob --password=‹pw› http://x
wget --header="Authorization: Bearer ‹an32›" http://x
http -a bob:‹pw› GET http://x
redis-cli -h h -a '‹pw›'
redis-cli --pass ‹word›
psql "postgresql://u:‹pw›@h/db"
ldapwhoami -D cn=x -w '‹pw›'
sshpass -p "‹pw›" ssh h
sshpass -p‹word› ssh h
echo "‹pw›" | sudo -S ls
echo '‹pw›' | docker login --username x --password-stdin r
printf '‹pw›' | gh auth login --with-token
openssl pkcs12 -export -passout pass:‹pw› -in a
openssl pkcs12 -in a -passin 'pass:‹word›'
openssl enc -aes-256-cbc -pass pass:‹pw› -in a
zip -e -P ‹word› a.zip b
unzip -P '‹pw›' a.zip
7z a -p‹pw› a.7z b
7za x -p‹word› a
rar a -hp‹pw› a
gpg --batch --passphrase '‹pw›' -c a
htpasswd -bc users bob ‹pw›
net use \\h\s /user:bob ‹pw›
net use X: \\h\s ‹pw› /user:d\bob
ansible-playbook -e db_password=‹pw› a.yml
ansible-playbook --extra-vars "vault_pass=‹word›"
helm upgrade a b --set auth.password=‹pw›
kubectl create secret generic a --from-literal=token=‹an32›
kubectl create secret docker-registry r --docker-password=‹pw›
vault kv put secret/a password=‹pw›
vault login token=‹an24›
vault login -method=userpass username=bob password=‹pw›
aws configure set aws_secret_access_key ‹b40›
terraform apply -var="db_password=‹pw›"
npm config set //r/:_authToken=‹an36›
npm config set _authToken ‹an36›
git clone https://oauth2:‹t20›@gitlab.x/a.git
git push https://bob:‹pw›@h/a.git
rclone config create r s3 secret_access_key=‹an40›
restic -p ‹pw›
borg init --passphrase ‹pw›
flyctl auth token ‹an40›
sqlcmd -S h -U sa -P '‹pw›'
sqlplus system/‹word›@db
smbclient -U bob%‹word› //h/s
mount -t cifs -o username=x,password=‹word› //h/s /m
rdesktop -u x -p ‹word› h
xfreerdp /u:x /p:‹pw› /v:h
plink -pw ‹word› h
expect -c 'send "‹pw›\r"'
snmpwalk -v3 -A ‹pw› h
ipmitool -U x -P ‹word› power
`), "\n") {
		text := fill(rng, un.Replace(c))
		got := s.Scrub(text).String()
		if !onlyFilled(got, split(un.Replace(c))) {
			t.Logf("%s => %q", c, got)
		}
	}
}
