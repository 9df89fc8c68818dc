#!/usr/bin/env python3
"""Gives list_messages.py small sources and expects it to find what people may read in them."""

import unittest

import list_messages


class ListMessagesTest(unittest.TestCase):
    def found(self, text):
        return [message for _, message in list_messages.messages(text) if list_messages.is_message(message)]

    def test_pieces_of_one_message_are_joined(self):
        self.assertEqual(self.found('Fail("the port "\n     "is taken");'), ["the port is taken"])
        self.assertEqual(self.found('Fail("the port " + std::to_string(port) + " is taken");'),
                         ["the port {std::to_string(port)} is taken"])
        self.assertEqual(self.found('out << "the port " << port << " is taken";'), ["the port {port} is taken"])
        self.assertEqual(self.found('Fail("the port "  // Of the server.\n     "is taken");'), ["the port is taken"])

    def test_arguments_are_two_messages(self):
        self.assertEqual(self.found('Flag("the port", "where it listens");'), ["the port", "where it listens"])

    def test_comments_and_characters_are_no_messages(self):
        self.assertEqual(self.found("char c = '\"';  // It's \"not a message\"\n/* \"nor this one\" */"), [])

    def test_names_are_no_messages(self):
        self.assertEqual(self.found('Get("max_tokens"); Get("GET /v1");'), [])

    def test_raw_strings_and_escapes(self):
        self.assertEqual(self.found('Say(R"x(it says "no" to it)x"); Say("it says \\"yes\\" to it");'),
                         ['it says "no" to it', 'it says "yes" to it'])

    def test_lines(self):
        self.assertEqual(list(list_messages.messages('\n\nSay("two words");')), [(3, "two words")])


if __name__ == "__main__":
    unittest.main()
