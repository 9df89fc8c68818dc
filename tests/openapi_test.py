#!/usr/bin/env python3
"""What a running server says of itself at /openapi.json is valid OpenAPI 3.1, and what it lists is there.

usage: openapi_test.py --ropeway PROGRAM --tiny TINY.gguf
"""
import argparse
import json
import re
import sys
import unittest

from openapi_spec_validator import OpenAPIV31SpecValidator

from ropeway_server import RopewayServer


class OpenApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = RopewayServer(args.ropeway, args.tiny)
        cls.addClassCleanup(cls.server.process.wait)
        cls.addClassCleanup(cls.server.process.terminate)
        cls.document = json.loads(cls.server.get("/openapi.json")[1])

    def test_it_is_valid(self):
        self.assertEqual([str(error) for error in OpenAPIV31SpecValidator(self.document).iter_errors()], [])

    def test_what_it_lists_is_there(self):
        for path, operations in self.document["paths"].items():
            known = re.sub("{[a-z]+}", "1", path)
            status, _, headers = self.server.request("OPTIONS", known)
            self.assertEqual(status, 204, path)
            for method in operations:
                self.assertIn(method.upper(), headers["Allow"].split(", "), path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ropeway", required=True)
    parser.add_argument("--tiny", required=True)
    args, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
