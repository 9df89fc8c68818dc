// The server's guarantees under TLS, over real sockets.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/test_certificate.h"
#include "server/test_server.h"

namespace ropeway::server {
namespace {

using testing::HasSubstr;

// A blocking client that speaks TLS; a read that waits longer than a minute fails.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int max_version = TLS1_3_VERSION) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval timeout{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return;
    SSL_CTX_set_max_proto_version(context_.get(), max_version);
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_security_level(context_.get(), 0);  // Else the client itself rejects TLS 1.1.
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_);
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to a server that may have hung up.
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  ~TlsClient() { Close(); }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  bool Send(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  std::string ReadSome() {
    char chunk[16384];
    const int got = SSL_read(ssl_.get(), chunk, sizeof(chunk));
    return got > 0 ? std::string(chunk, static_cast<size_t>(got)) : "";
  }
  // A name for the server's certificate.
  std::string ServersKey() const {
    const std::unique_ptr<X509, decltype(&X509_free)> cert(SSL_get1_peer_certificate(ssl_.get()),
                                                           X509_free);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    if (cert == nullptr || X509_pubkey_digest(cert.get(), EVP_sha256(), digest, &bytes) != 1) {
      return "";
    }
    return {reinterpret_cast<const char*>(digest), bytes};
  }
  // Reads to the end. Returns whether the server sent close_notify.
  std::string ReadToEnd(bool* proper) {
    std::string all;
    for (std::string some; !(some = ReadSome()).empty();) all += some;
    *proper = (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
    return all;
  }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_{SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
  int fd_ = -1;
  bool connected_ = false;
};

const TestCertificate& Certificate() {
  struct Files {
    ~Files() {
      for (const std::string& path : {made.cert, made.key, made.encrypted_key, made.other_key}) {
        std::remove(path.c_str());
      }
    }
    const TestCertificate made = MakeTestCertificate();
  };
  static const Files files;
  return files.made;
}

class HttpTlsTest : public ServerTest {
 protected:
  void SetUp() override { Start(ServerLimits()); }

  void Start(const ServerLimits& limits) {
    ServerOptions options;
    options.limits = limits;
    options.tls_cert = Certificate().cert;
    options.tls_key = Certificate().key;
    StartServer(options);
  }
};

TEST_F(HttpTlsTest, AnswersWholeAndAsAStream) {
  for (const char* stream : {"false", "true"}) {
    TlsClient client(port());
    ASSERT_TRUE(client.connected());
    client.Send(PostBytes("/v1/completions",
                          R"({"prompt":"a","max_tokens":3,"stream":)" + std::string(stream) + "}",
                          "Connection: close\r\n"));
    bool proper = false;
    const std::string reply = client.ReadToEnd(&proper);
    EXPECT_THAT(reply, HasSubstr("HTTP/1.1 200 OK"));
    EXPECT_THAT(reply, HasSubstr("w2 "));
    EXPECT_TRUE(proper);
  }
}

TEST_F(HttpTlsTest, NewHandshakesSeeAReloadedCertificate) {
  const auto reload = [this] {
    const TestCertificate& names = Certificate();
    const StatusOr<http::TlsFiles> files = http::ReadTlsFiles(names.cert, names.key, true);
    return files.ok() ? server_->Reload(ServerOptions(), *files) : files.status();
  };
  const std::string get = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
  TlsClient before(port());
  ASSERT_TRUE(before.connected());
  const TestCertificate files = MakeTestCertificate();  // Others, under the same names.
  EXPECT_EQ(TlsClient(port()).ServersKey(), before.ServersKey()) << "not read unasked";
  ASSERT_TRUE(reload().ok());
  TlsClient after(port());
  ASSERT_TRUE(after.connected());
  EXPECT_NE(after.ServersKey(), before.ServersKey());
  EXPECT_TRUE(server_->Reload(ServerOptions()).ok());
  EXPECT_EQ(TlsClient(port()).ServersKey(), after.ServersKey()) << "without files it stays";
  for (TlsClient* client : {&before, &after}) {
    EXPECT_TRUE(client->Send(get));
    EXPECT_THAT(client->ReadSome(), HasSubstr("HTTP/1.1 200 OK"));
  }
  // What cannot be used changes nothing.
  std::ofstream(files.key) << "no key";
  EXPECT_EQ(reload().field(), "tls_key");
  std::remove(files.cert.c_str());
  EXPECT_EQ(reload().field(), "tls_cert");
  ASSERT_EQ(mkfifo(files.cert.c_str(), 0600), 0);
  EXPECT_THAT(reload().message(), HasSubstr("cannot be read: it is not a regular file."));
  std::remove(files.cert.c_str());
  EXPECT_EQ(TlsClient(port()).ServersKey(), after.ServersKey());
  MakeTestCertificate();  // For the other tests.
}

// As of a shell's process substitution, which can be read once.
TEST(Tls, AtTheStartFilesMayBePipes) {
  const TestCertificate& good = Certificate();
  const std::string pipe = testing::TempDir() + fmt::format("ropeway_tls_pipe_{}", getpid());
  for (const bool of_key : {false, true}) {
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    std::thread writer(
        [&] { std::ofstream(pipe) << std::ifstream(of_key ? good.key : good.cert).rdbuf(); });
    FakeBackend backend;
    ServerOptions options;
    options.tls_cert = of_key ? good.cert : pipe;
    options.tls_key = of_key ? pipe : good.key;
    const Status status = ApiServer(options, &backend).Start();
    EXPECT_TRUE(status.ok()) << status.message();
    writer.join();
    std::remove(pipe.c_str());
  }
}

TEST_F(HttpTlsTest, LargeBodiesAndAnswersPass) {
  backend_.set_script([](const Request&) {
    FakeScript script;
    script.text = [](int) { return std::string(100'000, 'y'); };
    return script;
  });
  TlsClient client(port());
  const std::string prompt(size_t{5} << 20, 'x');
  client.Send(PostBytes("/v1/completions", R"({"max_tokens":20,"prompt":")" + prompt + "\"}",
                        "Connection: close\r\n"));
  bool proper = false;
  EXPECT_GT(client.ReadToEnd(&proper).size(), 2'000'000U);
  EXPECT_TRUE(proper);
  EXPECT_EQ(std::get<std::string>(backend_.submitted().at(0).prompt).size(), prompt.size());
}

TEST_F(HttpTlsTest, OldVersionsAndPlainHttpAreRejected) {
  EXPECT_TRUE(TlsClient(port(), TLS1_2_VERSION).connected());
  EXPECT_FALSE(TlsClient(port(), TLS1_1_VERSION).connected());
  TestClient plain(port());
  plain.Send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(plain.Read().status, 0);
  EXPECT_TRUE(TlsClient(port()).connected());
}

TEST_F(HttpTlsTest, VanishingIsACancel) {
  backend_.set_script(EndlessScript);
  for (bool streams : {true, false}) {
    TlsClient client(port());
    client.Send(PostBytes("/v1/completions",
                          streams ? R"({"prompt":"a","stream":true})" : R"({"prompt":"a"})"));
    if (streams) {
      EXPECT_THAT(client.ReadSome(), HasSubstr("200 OK"));
    }
    ASSERT_TRUE(backend_.WaitActive(1));
    client.Close();
    EXPECT_TRUE(backend_.WaitIdle());
  }
}

TEST_F(HttpTlsTest, SlowReadersAreCutOff) {
  server_->Stop();
  ServerLimits limits;
  limits.max_stream_bytes = 64 << 10;
  limits.send_buffer_bytes = 16 << 10;
  Start(limits);
  backend_.set_script(EndlessTexts(64 << 10));
  TlsClient slow(port());
  slow.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(backend_.WaitDeltas(1));
  EXPECT_TRUE(backend_.WaitIdle());
}

// A client that connects and sends nothing, or half a handshake, is timed out as for its headers.
TEST_F(HttpTlsTest, HandshakesTimeOut) {
  server_->Stop();
  ServerLimits limits;
  limits.header_timeout = std::chrono::milliseconds(100);
  Start(limits);
  TestClient silent(port());
  EXPECT_EQ(silent.ReadToEnd(), "");
  TestClient half(port());
  half.Send(std::string("\x16\x03\x01\x02", 4));
  EXPECT_EQ(half.ReadToEnd(), "");
}

TEST_F(HttpTlsTest, TheCapCountsBeforeTheHandshake) {
  server_->Stop();
  ServerLimits limits;
  limits.max_connections = 1;
  Start(limits);
  TestClient silent(port());  // Holds the place without a handshake, and gives way.
  TlsClient stream(port());
  ASSERT_TRUE(stream.connected());
  EXPECT_EQ(silent.ReadToEnd(), "");
  backend_.set_script(EndlessScript);
  stream.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(backend_.WaitActive(1));
  // Now there is none to give way: probes are answered, and nothing else.
  for (const auto& [request, status] :
       {std::pair<std::string, std::string>("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                            "200"),
        {PostBytes("/v1/completions", R"({"prompt":"a"})"), "503"}}) {
    TlsClient late(port());
    ASSERT_TRUE(late.connected());
    late.Send(request);
    EXPECT_THAT(late.ReadSome(), HasSubstr("HTTP/1.1 " + status));
  }
}

TEST_F(HttpTlsTest, StopsWithHandshakesAndStreamsOpen) {
  backend_.set_script(EndlessScript);
  TestClient silent(port());
  TlsClient idle(port());
  TlsClient stream(port());
  stream.Send(PostBytes("/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_TRUE(backend_.WaitActive(1));
  server_->Stop();
  EXPECT_TRUE(backend_.WaitIdle());
}

TEST(Tls, BadFilesAreOneSentenceThatNamesThem) {
  const TestCertificate& good = Certificate();
  ASSERT_FALSE(good.cert.empty() || good.key.empty() || good.encrypted_key.empty() ||
               good.other_key.empty());
  const std::string text = testing::TempDir() + fmt::format("ropeway_no_pem_{}.txt", getpid());
  std::ofstream(text) << "hello\n";
  const std::string none = "no/such/file.pem";
  FakeBackend backend;
  const auto start = [&](const std::string& cert, const std::string& key) {
    ServerOptions options;
    options.tls_cert = cert;
    options.tls_key = key;
    return ApiServer(options, &backend).Start();
  };
  struct Case {
    std::string cert, key, field, names, says;
  };
  for (const Case& c :
       {Case{none, good.key, "tls_cert", none, "cannot be read"},
        Case{good.cert, none, "tls_key", none, "cannot be read"},
        Case{testing::TempDir(), good.key, "tls_cert", testing::TempDir(), ""},
        Case{text, good.key, "tls_cert", text, "holds no TLS certificate"},
        Case{good.key, good.key, "tls_cert", good.key, "holds no TLS certificate"},
        Case{good.cert, text, "tls_key", text, "holds no private key"},
        Case{good.cert, good.cert, "tls_key", good.cert, "holds no private key"},
        Case{good.cert, good.other_key, "tls_key", good.other_key, "does not belong"},
        Case{good.cert, good.encrypted_key, "tls_key", good.encrypted_key, "password"}}) {
    const Status status = start(c.cert, c.key);
    ASSERT_FALSE(status.ok()) << c.cert << " " << c.key;
    EXPECT_EQ(status.field(), c.field);
    EXPECT_THAT(status.message(), HasSubstr(c.names));
    EXPECT_THAT(status.message(), HasSubstr(c.says));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  EXPECT_TRUE(start(good.cert, good.key).ok());
  std::remove(text.c_str());
}

TEST(Tls, NeedsBothFiles) {
  FakeBackend backend;
  ServerOptions options;
  options.tls_cert = Certificate().cert;
  ApiServer server(options, &backend);
  EXPECT_EQ(server.Start().field(), "tls_key");
}

}  // namespace
}  // namespace ropeway::server
