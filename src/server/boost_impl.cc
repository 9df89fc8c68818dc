// The bodies of Asio and Beast, compiled once for the whole program: their headers are slow to
// compile.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
