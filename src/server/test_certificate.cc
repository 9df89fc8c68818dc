#include "server/test_certificate.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace ropeway::server {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Cert = std::unique_ptr<X509, decltype(&X509_free)>;
using File = std::unique_ptr<std::FILE, decltype(&std::fclose)>;

Key MakeKey() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

Cert MakeCert(EVP_PKEY* key) {
  Cert cert(X509_new(), X509_free);
  X509_set_version(cert.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), 24 * 3600);
  X509_set_pubkey(cert.get(), key);
  X509_NAME* name = X509_get_subject_name(cert.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert.get(), name);
  X509_sign(cert.get(), key, EVP_sha256());
  return cert;
}

std::string WriteKey(EVP_PKEY* key, const std::string& path, const char* password) {
  const File file(std::fopen(path.c_str(), "w"), std::fclose);
  const EVP_CIPHER* cipher = password != nullptr ? EVP_aes_128_cbc() : nullptr;
  const int wrote = PEM_write_PKCS8PrivateKey(file.get(), key, cipher, password,
                                              password != nullptr ? 4 : 0, nullptr, nullptr);
  return wrote == 1 ? path : "";
}

}  // namespace

TestCertificate MakeTestCertificate() {
  const std::string base = testing::TempDir() + "ropeway_tls_" + std::to_string(getpid());
  TestCertificate made;
  const Key key = MakeKey();
  const Key other = MakeKey();
  const Cert cert = MakeCert(key.get());
  const File file(std::fopen((base + "_cert.pem").c_str(), "w"), std::fclose);
  if (PEM_write_X509(file.get(), cert.get()) == 1) made.cert = base + "_cert.pem";
  made.key = WriteKey(key.get(), base + "_key.pem", nullptr);
  made.encrypted_key = WriteKey(key.get(), base + "_encrypted.pem", "word");
  made.other_key = WriteKey(other.get(), base + "_other.pem", nullptr);
  return made;
}

}  // namespace ropeway::server
