# What `cmake --install` puts where: the library and its public headers, found by
# find_package(ropeway) as ropeway::engine and ropeway::gateway, and the program where it is built.
include(CMakePackageConfigHelpers)

# ropeway_engine and ropeway_gateway, and every room that they link.
set(rooms base net core answer tokenizer grammar kernels gpu model sampling kvcache policy scheduler executor store service engine api gateway)
foreach(room ${rooms})
  set_target_properties(ropeway_${room} PROPERTIES EXPORT_NAME ${room})
  target_include_directories(ropeway_${room} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ropeway_${room} EXPORT ropewayTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
unset(rooms)
install(TARGETS xgrammar EXPORT ropewayTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

install(DIRECTORY include/ropeway DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT ropewayTargets NAMESPACE ropeway:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ropeway)
configure_package_config_file(cmake/ropewayConfig.cmake.in ${CMAKE_BINARY_DIR}/ropewayConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ropeway)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ropewayConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ropewayConfig.cmake ${CMAKE_BINARY_DIR}/ropewayConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/ropeway)
if(TARGET ropeway)
  install(TARGETS ropeway RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
