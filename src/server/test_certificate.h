// A certificate for tests; each program makes a new one.
#ifndef ROPEWAY_SERVER_TEST_CERTIFICATE_H_
#define ROPEWAY_SERVER_TEST_CERTIFICATE_H_

#include <string>

namespace ropeway::server {

struct TestCertificate {
  std::string cert;  // Paths of PEM files.
  std::string key;
  std::string encrypted_key;  // The same key under a password.
  std::string other_key;      // The key of another certificate.
};

// Writes the files into the tests' folder, for "localhost", valid for a day. Empty paths where
// OpenSSL fails.
TestCertificate MakeTestCertificate();

}  // namespace ropeway::server

#endif  // ROPEWAY_SERVER_TEST_CERTIFICATE_H_
